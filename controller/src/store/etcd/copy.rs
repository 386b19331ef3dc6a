//! A copy of a store that a migration writes below a prefix of etcd.
//!
//! The copy is a [`Migration::Candidate`] from its first key on: no controller opens it unless its data folder records its
//! store generation, and a later migration replaces it. Every write compares the record of the store, so that two
//! migrations never mix their documents. Used by `migrate`.

use super::client::Client;
use super::feed::PAGE_KEYS;
use super::files::EtcdFiles;
use super::layout::{
    Layout, Migration, StoreRecord, VERSION, after, delete, end_of_prefix, put, range_written_until,
    written_at,
};
use super::messages::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest};
use super::open::{OpenError, Options, RecordedStore, connect, find, require_own};
use state::documents::draft::{Revision, StoredDocument};
use state::terms::names::Uuid;

/// A copy that is being written.
pub struct EtcdCopy {
    client: Client,
    layout: Layout,
    store_generation: Uuid,
    store_revision: Revision,
    cluster: u64,
}

impl EtcdCopy {
    /// Starts a copy: an earlier one below the prefix, and a store that a migration has left, are deleted.
    ///
    /// # Errors
    /// If etcd is refused, or the prefix has another store or one that is in use.
    pub async fn start(options: &Options) -> Result<EtcdCopy, OpenError> {
        let (client, layout) = connect(options).await?;
        let found = find(&client, &layout).await?;
        let precondition = match &found.record {
            Some((record, revision)) => {
                require_own(&layout, record, options.installation)?;
                if record.migration.is_none() {
                    let (prefix, holder) = (layout.prefix().to_owned(), "this system".to_owned());
                    return Err(OpenError::PrefixInUse { prefix, holder });
                }
                written_at(layout.store(), *revision)
            }
            None => {
                let (first, end) = layout.all();
                range_written_until(first, end, 0)
            }
        };
        let record = StoreRecord {
            version: VERSION,
            installation: options.installation,
            store_generation: options.new_generation,
            replaced: None,
            migration: Some(Migration::Candidate),
        };
        let text = serde_json::to_string(&record).expect("a record is plain data");
        let request = TxnRequest {
            compare: vec![precondition],
            success: vec![put(layout.store(), &text), put(layout.newest(), "")],
            failure: Vec::new(),
        };
        let written = client.txn(request).await?;
        if !written.succeeded {
            return Err(OpenError::ChangedByOther);
        }
        let header = written.header.unwrap_or_default();
        let copy = EtcdCopy {
            client,
            layout,
            store_generation: options.new_generation,
            store_revision: header.revision.unsigned_abs(),
            cluster: header.cluster_id,
        };
        copy.delete_documents().await?;
        Ok(copy)
    }

    /// Writes a batch of documents.
    ///
    /// # Errors
    /// If etcd cannot be used, or another process has changed the prefix.
    pub async fn write(&self, batch: &[StoredDocument]) -> Result<(), OpenError> {
        let writes = batch.iter().map(|stored| put(self.layout.document(&stored.key), &stored.value));
        self.change(writes.chain([put(self.layout.newest(), "")]).collect()).await.map(drop)
    }

    /// Returns the first key by which the documents of the copy differ from these, which are in the order of their keys.
    ///
    /// # Errors
    /// If etcd cannot be used.
    pub async fn difference(&self, expected: &[StoredDocument]) -> Result<Option<String>, OpenError> {
        let mut expected = expected.iter();
        let mut from = self.layout.document("");
        loop {
            let (page, more) = self.page(from.clone()).await?;
            for kv in &page {
                let wanted = expected.next();
                let is_equal = wanted.is_some_and(|stored| {
                    kv.key == self.layout.document(&stored.key) && kv.value == stored.value.as_bytes()
                });
                if !is_equal {
                    let found = || String::from_utf8_lossy(&kv.key).into_owned();
                    return Ok(Some(wanted.map_or_else(found, |stored| stored.key.clone())));
                }
            }
            match page.last() {
                Some(last) if more => from = after(&last.key),
                _ => return Ok(expected.next().map(|stored| stored.key.clone())),
            }
        }
    }

    /// Returns what the data folder records of the copy, once it is complete.
    ///
    /// # Errors
    /// If etcd cannot be used.
    pub async fn recorded(&self) -> Result<RecordedStore, OpenError> {
        let revision = find(&self.client, &self.layout).await?.newest;
        let cluster = format!("{:x}", self.cluster);
        Ok(RecordedStore { cluster, store_generation: self.store_generation, revision, handle: None })
    }

    /// Deletes the documents of an earlier copy.
    async fn delete_documents(&self) -> Result<(), OpenError> {
        loop {
            let (page, more) = self.page(self.layout.document("")).await?;
            if !page.is_empty() {
                self.change(page.into_iter().map(|kv| delete(kv.key)).collect()).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Returns the files of the copy.
    pub fn files(&self) -> EtcdFiles {
        EtcdFiles::new(&self.client, self.layout.clone(), self.store_revision)
    }

    async fn page(&self, key: Vec<u8>) -> Result<(Vec<KeyValue>, bool), OpenError> {
        let range_end = end_of_prefix(&self.layout.document(""));
        let request = RangeRequest { key, range_end, limit: PAGE_KEYS, ..RangeRequest::default() };
        let page = self.client.range(request).await?;
        Ok((page.kvs, page.more))
    }

    async fn change(&self, success: Vec<RequestOp>) -> Result<(), OpenError> {
        let compare = vec![written_at(self.layout.store(), self.store_revision)];
        let request = TxnRequest { compare, success, failure: Vec::new() };
        match self.client.idempotent_txn(request).await?.succeeded {
            true => Ok(()),
            false => Err(OpenError::ChangedByOther),
        }
    }
}

/// Returns the revision of the last change below the prefix.
///
/// # Errors
/// If etcd is refused.
pub async fn newest_change(options: &Options) -> Result<Revision, OpenError> {
    let (client, layout) = connect(options).await?;
    Ok(find(&client, &layout).await?.newest)
}

/// Prepares a store to be left: the handles that have opened it before commit nothing more, because every transaction
/// compares the record of the store. The data folder that records this store generation can still open it, which ends this.
///
/// # Errors
/// If etcd is refused, or has another store, or one with a change after `newest`.
pub async fn prepare_to_leave(
    options: &Options,
    store_generation: Uuid,
    newest: Revision,
) -> Result<(), OpenError> {
    let (client, layout) = connect(options).await?;
    let found = find(&client, &layout).await?;
    let Some((record, revision)) = found.record.filter(|_| found.newest == newest) else {
        return Err(OpenError::ChangedByOther);
    };
    require_own(&layout, &record, options.installation)?;
    if record.store_generation != store_generation {
        return Err(OpenError::ChangedByOther);
    }
    let unchanged = vec![written_at(layout.store(), revision), written_at(layout.newest(), newest)];
    mark(&client, &layout, record, Migration::Candidate, unchanged).await
}

/// Marks a prepared store as left. A store that is left already, or that another one has replaced, is not changed.
///
/// # Errors
/// If etcd is refused, or another controller has opened the store after it was prepared.
pub async fn leave(options: &Options, store_generation: Uuid) -> Result<(), OpenError> {
    let (client, layout) = connect(options).await?;
    let Some((record, revision)) = find(&client, &layout).await?.record else { return Ok(()) };
    if record.store_generation != store_generation || record.migration == Some(Migration::Left) {
        return Ok(());
    }
    require_own(&layout, &record, options.installation)?;
    if record.migration.is_none() {
        return Err(OpenError::ChangedByOther);
    }
    let unchanged = vec![written_at(layout.store(), revision)];
    mark(&client, &layout, record, Migration::Left, unchanged).await
}

async fn mark(
    client: &Client,
    layout: &Layout,
    record: StoreRecord,
    migration: Migration,
    compare: Vec<Compare>,
) -> Result<(), OpenError> {
    let record = StoreRecord { migration: Some(migration), ..record };
    let text = serde_json::to_string(&record).expect("a record is plain data");
    let request = TxnRequest { compare, success: vec![put(layout.store(), &text)], failure: Vec::new() };
    match client.txn(request).await?.succeeded {
        true => Ok(()),
        false => Err(OpenError::ChangedByOther),
    }
}
