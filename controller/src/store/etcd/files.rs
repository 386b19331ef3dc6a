//! Charm archives and files of resources in etcd, by their digest, in chunks.
//!
//! ```text
//! 1. The manifest is written, without a size, if there is none.
//! 2. Each chunk is written, if the manifest exists.
//! 3. The manifest is written with the size, if it still exists: from now on the file can be read.
//! ```
//! An upload that dies half way leaves a manifest without a size. Each chunk has a manifest, so [`FileStore::list`] finds what
//! is left, and the janitor deletes it like a file that nothing uses. Two uploads of the same file write the same chunks.
//!
//! Every upload and look-up writes the manifest, and a deletion compares its revision with the one that the janitor has
//! seen at the beginning of the grace period, so no controller deletes what another one has just reported as stored.
//! A document of the file is removed before its chunks, and written after them: chunks may have no document, which the
//! janitor deletes later, and no document lacks its chunks.
//!
//! The digest is verified at each read. Used by `shared_files` and `migrate`.

use super::client::{CallError, Client};
use super::feed::PAGE_KEYS;
use super::layout::{
    FileManifest, Layout, after, delete, delete_range, exists, get, get_operation, put, put_bytes, written_at,
};
use super::messages::{Compare, KeyValue, RangeRequest, TxnRequest, TxnResponse};
use crate::disk_threads::DiskThreads;
use crate::store::files::{FileError, FileState, FileStore};
use crate::store::outage::Outage;
use futures::future::BoxFuture;
use host::digest::{Hash, sha256_of};
use state::documents::draft::{BYTES_MAX, Revision};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The bytes of one chunk: 1 MiB. etcd accepts requests of 1.5 MiB by default, and the start of the controller has
/// verified that it accepts 1.25 MiB of documents beside 2,048 comparisons; a chunk has two.
pub const CHUNK_BYTES: u64 = 1 << 20;
const _: () = assert!(CHUNK_BYTES as usize <= BYTES_MAX);
/// How often an upload begins again because a janitor has deleted its manifest.
const ATTEMPTS_MAX: usize = 3;

/// The files of one store in etcd.
#[derive(Clone)]
pub struct EtcdFiles {
    /// A connection of its own: a large file delays no transaction.
    client: Client,
    layout: Layout,
    /// The revision of the store record: nothing is written to another store.
    store_revision: Revision,
}

impl From<CallError> for FileError {
    fn from(error: CallError) -> FileError {
        FileError::Outage(error.outage())
    }
}

impl EtcdFiles {
    pub(super) fn new(client: &Client, layout: Layout, store_revision: Revision) -> EtcdFiles {
        EtcdFiles { client: client.separate(), layout, store_revision }
    }

    async fn put(&self, sha256: &str, file: &Path, disk: &DiskThreads) -> Result<(), FileError> {
        // A damaged file must not replace chunks that are intact.
        let path = file.to_owned();
        if disk.run(move || File::open(path).and_then(sha256_of)).await? != sha256 {
            return Err(FileError::Damaged);
        }
        for _ in 0..ATTEMPTS_MAX {
            if self.put_once(sha256, file, disk).await? {
                return Ok(());
            }
        }
        Err(FileError::Deleted)
    }

    /// False if the manifest was deleted meanwhile.
    async fn put_once(&self, sha256: &str, file: &Path, disk: &DiskThreads) -> Result<bool, FileError> {
        self.start(sha256).await?;
        let (mut hash, mut offset) = (Hash::default(), 0);
        loop {
            let path = file.to_owned();
            let read = disk.run(move || read_chunk(&path, offset)).await?;
            if read.is_empty() {
                break;
            }
            hash.update(&read);
            let (bytes, number) = (read.len() as u64, offset / CHUNK_BYTES);
            let chunk = put_bytes(self.layout.chunk(sha256, number), read);
            if !self.write(vec![exists(self.layout.manifest(sha256))], vec![chunk]).await? {
                return Ok(false);
            }
            offset += bytes;
        }
        let is_intact = hash.finish() == sha256;
        let manifest = FileManifest { bytes: is_intact.then_some(offset) };
        let finished = put(self.layout.manifest(sha256), &text_of(manifest));
        let finished = self.write(vec![exists(self.layout.manifest(sha256))], vec![finished]).await?;
        if is_intact { Ok(finished) } else { Err(FileError::Damaged) }
    }

    /// Writes the manifest: that of a complete file again, whose chunks keep their content.
    async fn start(&self, sha256: &str) -> Result<(), FileError> {
        let manifest = text_of(FileManifest { bytes: None });
        let key = self.layout.manifest(sha256);
        if !self.write(vec![written_at(key.clone(), 0)], vec![put(key, &manifest)]).await? {
            self.record_needed(sha256).await?;
        }
        Ok(())
    }

    async fn fetch(&self, sha256: &str, to: Option<&Path>, disk: &DiskThreads) -> Result<bool, FileError> {
        let Some((FileManifest { bytes: Some(bytes) }, _)) = self.manifest(sha256).await? else {
            return Ok(false);
        };
        let mut hash = Hash::default();
        for number in 0..bytes.div_ceil(CHUNK_BYTES) {
            let read = self.client.range(get(self.layout.chunk(sha256, number))).await?;
            let Some(KeyValue { value, .. }) = read.kvs.into_iter().next() else {
                return Err(FileError::Damaged);
            };
            hash.update(&value);
            if let Some(to) = to {
                let to = to.to_owned();
                disk.run(move || append(&to, &value)).await?;
            }
        }
        if hash.finish() != sha256 {
            tracing::error!("the file {sha256} in etcd is damaged");
            return Err(FileError::Damaged);
        }
        Ok(true)
    }

    async fn record_needed(&self, sha256: &str) -> Result<bool, FileError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((manifest, revision)) = self.manifest(sha256).await? else { return Ok(false) };
            let key = self.layout.manifest(sha256);
            let again = put(key.clone(), &text_of(manifest));
            if self.write(vec![written_at(key, revision)], vec![again]).await? {
                return Ok(manifest.bytes.is_some());
            }
        }
        // Others write the manifest all the time: the file is needed, and an upload of it may still be in progress.
        Ok(self.manifest(sha256).await?.is_some_and(|(manifest, _)| manifest.bytes.is_some()))
    }

    async fn list(&self) -> Result<BTreeMap<String, FileState>, FileError> {
        let (mut key, range_end) = self.layout.manifests();
        let mut listed = BTreeMap::new();
        loop {
            let page = RangeRequest {
                key,
                range_end: range_end.clone(),
                limit: PAGE_KEYS,
                ..RangeRequest::default()
            };
            let page = self.client.range(page).await?;
            for kv in &page.kvs {
                let Some(sha256) = self.layout.digest_of_manifest(&kv.key) else { continue };
                let is_complete = manifest_of(kv).bytes.is_some();
                listed.insert(sha256, FileState { revision: kv.mod_revision.unsigned_abs(), is_complete });
            }
            match page.kvs.last() {
                Some(last) if page.more => key = after(&last.key),
                _ => return Ok(listed),
            }
        }
    }

    async fn delete(&self, sha256: &str, revision: u64) -> Result<bool, FileError> {
        let (manifest, (first, end)) = (self.layout.manifest(sha256), self.layout.chunks(sha256));
        let deletions = vec![delete_range(first, end), delete(manifest.clone())];
        self.write(vec![written_at(manifest, revision)], deletions).await
    }

    async fn manifest(&self, sha256: &str) -> Result<Option<(FileManifest, Revision)>, FileError> {
        let found = self.client.range(get(self.layout.manifest(sha256))).await?.kvs;
        Ok(found.first().map(|kv| (manifest_of(kv), kv.mod_revision.unsigned_abs())))
    }

    /// Executes a transaction that has the same effect if it is executed twice. False if a comparison fails.
    async fn write(
        &self,
        mut compare: Vec<Compare>,
        success: Vec<super::messages::RequestOp>,
    ) -> Result<bool, FileError> {
        compare.push(written_at(self.layout.store(), self.store_revision));
        let failure = vec![get_operation(self.layout.store())];
        let response = self.client.idempotent_txn(TxnRequest { compare, success, failure }).await?;
        if !response.succeeded && store_revision(&response) != self.store_revision {
            return Err(FileError::Outage(Outage::Refused(
                "another store generation was started".to_owned(),
            )));
        }
        Ok(response.succeeded)
    }
}

impl FileStore for EtcdFiles {
    fn put<'f>(
        &'f self,
        sha256: &'f str,
        file: &'f Path,
        disk: &'f DiskThreads,
    ) -> BoxFuture<'f, Result<(), FileError>> {
        Box::pin(self.put(sha256, file, disk))
    }

    fn fetch<'f>(
        &'f self,
        sha256: &'f str,
        to: Option<&'f Path>,
        disk: &'f DiskThreads,
    ) -> BoxFuture<'f, Result<bool, FileError>> {
        Box::pin(self.fetch(sha256, to, disk))
    }

    fn record_needed<'f>(&'f self, sha256: &'f str) -> BoxFuture<'f, Result<bool, FileError>> {
        Box::pin(self.record_needed(sha256))
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<String, FileState>, FileError>> {
        Box::pin(self.list())
    }

    fn delete<'f>(&'f self, sha256: &'f str, revision: Revision) -> BoxFuture<'f, Result<bool, FileError>> {
        Box::pin(self.delete(sha256, revision))
    }
}

/// The revision of the store record, in the response to a transaction whose comparisons have failed.
fn store_revision(response: &TxnResponse) -> Revision {
    let range = response.responses.first().and_then(|response| response.range.as_ref());
    range.and_then(|range| range.kvs.first()).map_or(0, |kv| kv.mod_revision.unsigned_abs())
}

fn text_of(manifest: FileManifest) -> String {
    serde_json::to_string(&manifest).expect("a manifest is plain data")
}

/// The manifest. One that cannot be read is that of an incomplete file, which an upload replaces.
fn manifest_of(kv: &KeyValue) -> FileManifest {
    serde_json::from_slice(&kv.value).unwrap_or(FileManifest { bytes: None })
}

/// Reads the chunk at an offset; empty at the end of the file.
fn read_chunk(file: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let file = File::open(file)?;
    let left = file.metadata()?.len().saturating_sub(offset);
    let mut chunk = vec![0; usize::try_from(left.min(CHUNK_BYTES)).unwrap_or(0)];
    file.read_exact_at(&mut chunk, offset)?;
    Ok(chunk)
}

fn append(file: &Path, chunk: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(chunk)
}
