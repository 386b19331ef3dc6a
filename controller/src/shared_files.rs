//! The folder of archives as a cache of the files that the store keeps for all controllers ([`StoreFiles`]).
//!
//! A file is complete in the store before it counts as stored. The folder has those that this controller has received or
//! sent; a missing or damaged one is fetched again, and its digest is verified then and at each read. The least recently
//! used files are deleted beyond [`CACHE_BYTES_MAX`], but none that the store is not known to have. Used by
//! `host_environment`; a controller with the embedded engine has no `SharedFiles`.

use crate::disk_threads::DiskThreads;
use crate::store::files::{FileError, FileState, StoreFiles};
use api::error::{ApiError, ErrorCode};
use host::digest::is_sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The bytes of the files in the folder, beside the one that was used last: eight of the largest size (512 MiB), which are
/// 4 GiB. A file that is deleted while it is sent is requested again by the agent.
pub const CACHE_BYTES_MAX: u64 = 4 << 30;
const _: () = assert!(CACHE_BYTES_MAX == 8 * api::ARCHIVE_BYTES_MAX as u64);

/// The files of the store, and the folder in which some of them are cached. Clones share the folder.
#[derive(Clone)]
pub struct SharedFiles(Arc<Inner>);

struct Inner {
    files: StoreFiles,
    folder: PathBuf,
    disk: DiskThreads,
    cache_bytes_max: u64,
    known: Mutex<Known>,
    /// Held while a file is fetched: at most one at a time, so that many agents that need the same one cost one fetch.
    fetching: tokio::sync::Mutex<()>,
}

/// What is known about the files of the store, by digest.
#[derive(Default)]
struct Known {
    complete: BTreeSet<String>,
    /// Found to be damaged, and not stored again since then: they are not fetched for each request.
    damaged: BTreeSet<String>,
}

/// The temporary file of a fetch. It is removed on drop, if it is still there.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // it was renamed, or was never created
    }
}

impl SharedFiles {
    /// The files of the store, cached in a folder.
    pub fn new(files: StoreFiles, folder: PathBuf, disk: DiskThreads, cache_bytes_max: u64) -> SharedFiles {
        let (known, fetching) = (Mutex::default(), tokio::sync::Mutex::default());
        SharedFiles(Arc::new(Inner { files, folder, disk, cache_bytes_max, known, fetching }))
    }

    /// Stores those of these files that the folder has and the store lacks: the store was restored from an older backup, or
    /// the folder is older than the files of its store. A failure is logged.
    pub async fn complete(&self, registered: BTreeSet<String>) {
        let listed = match self.list().await {
            Ok(listed) => listed,
            Err(error) => return tracing::warn!("cannot list the files in the store: {error}"),
        };
        for sha256 in registered {
            if listed.get(&sha256).is_some_and(|state| state.is_complete) || !self.file(&sha256).exists() {
                continue;
            }
            match self.put(&sha256).await {
                Ok(()) => tracing::info!("stored the file {sha256}, which the store lacked"),
                Err(error) => {
                    tracing::warn!("cannot store the file {sha256}, which the store lacks: {error}")
                }
            }
        }
    }

    /// Stores a file that is complete in the folder.
    ///
    /// # Errors
    /// If the store does not have it when this returns.
    pub async fn store(&self, sha256: &str) -> Result<(), ApiError> {
        let stored = self.put(sha256).await;
        self.evict(sha256).await;
        stored.map_err(|error| {
            let hint = match &error {
                FileError::Outage(outage) => outage.hint(),
                _ => "try again",
            };
            ApiError::new(ErrorCode::Unavailable, format!("cannot store the upload: {error}")).hint(hint)
        })
    }

    /// Stores a file, unless the store has it: each write of a chunk takes space in etcd until a compaction.
    async fn put(&self, sha256: &str) -> Result<(), FileError> {
        let is_damaged = self.known().damaged.contains(sha256);
        if is_damaged || !self.0.files.record_needed(sha256).await? {
            self.0.files.put(sha256, &self.file(sha256), &self.0.disk).await?;
        }
        let mut known = self.known();
        known.damaged.remove(sha256);
        known.complete.insert(sha256.to_owned());
        Ok(())
    }

    /// Whether the store has a file; it is kept for a while then.
    pub async fn is_stored(&self, sha256: &str) -> bool {
        let needed = self.0.files.record_needed(sha256).await;
        needed.unwrap_or_else(|error| {
            tracing::warn!("cannot look up the file {sha256} in the store: {error}");
            false
        })
    }

    /// Records that a file of the folder is used.
    pub fn record_used(file: &Path) {
        let now = SystemTime::now();
        fs::File::open(file).and_then(|file| file.set_modified(now)).ok(); // it is deleted earlier then
    }

    /// Fetches a file into the folder, if the folder lacks it. False if the store lacks it, too, or has damaged chunks.
    ///
    /// # Errors
    /// If the store cannot be used, or the folder.
    pub async fn fetch(&self, sha256: &str) -> io::Result<bool> {
        let (shared, sha256) = (self.clone(), sha256.to_owned());
        // In a task of its own: a request that is dropped must not begin again with a large file.
        let fetched = tokio::spawn(async move { shared.fetch_once(&sha256).await }).await;
        match fetched.map_err(io::Error::other)? {
            Ok(is_there) => Ok(is_there),
            Err(FileError::Damaged) => Ok(false),
            Err(FileError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    async fn fetch_once(&self, sha256: &str) -> Result<bool, FileError> {
        let _guard = self.0.fetching.lock().await;
        let file = self.file(sha256);
        if file.try_exists()? {
            return Ok(true); // another request has fetched it
        }
        if self.known().damaged.contains(sha256) {
            return Err(FileError::Damaged);
        }
        let temporary = Temporary(self.0.folder.join(format!(".fetch.{:032x}", host::random::random_u128())));
        let path = temporary.0.clone();
        let create =
            move || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map(drop);
        self.0.disk.run(create).await?;
        let fetched = self.0.files.fetch(sha256, Some(&temporary.0), &self.0.disk).await;
        if matches!(fetched, Err(FileError::Damaged)) {
            self.known().damaged.insert(sha256.to_owned());
        }
        if !fetched? {
            return Ok(false);
        }
        // Not synced: a file that a power failure damages is found to be damaged, and fetched again.
        self.0.disk.run(move || fs::rename(&temporary.0, file)).await?;
        self.known().complete.insert(sha256.to_owned());
        self.evict(sha256).await;
        Ok(true)
    }

    /// Returns the state of all files of the store.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn list(&self) -> Result<BTreeMap<String, FileState>, FileError> {
        let listed = self.0.files.list().await?;
        let complete = listed.iter().filter(|(_, state)| state.is_complete);
        self.known().complete = complete.map(|(sha256, _)| sha256.clone()).collect();
        Ok(listed)
    }

    /// Deletes a file of the store that had this revision and was not needed since. Returns whether it was deleted.
    pub async fn delete(&self, sha256: &str, revision: u64) -> bool {
        match self.0.files.delete(sha256, revision).await {
            Ok(is_deleted) => is_deleted,
            Err(error) => {
                tracing::warn!("cannot delete the file {sha256} of the store: {error}");
                false
            }
        }
    }

    /// Deletes the files of the folder that were used the longest ago, beyond the bound.
    async fn evict(&self, newest: &str) {
        let (folder, newest) = (self.0.folder.clone(), newest.to_owned());
        let (complete, bytes_max) = (self.known().complete.clone(), self.0.cache_bytes_max);
        let evicted =
            move || evict(&folder, bytes_max, |sha256| *sha256 != newest && complete.contains(sha256));
        if let Err(error) = self.0.disk.run(evicted).await {
            tracing::warn!("cannot bound {}: {error}", self.0.folder.display());
        }
    }

    fn file(&self, sha256: &str) -> PathBuf {
        self.0.folder.join(sha256)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn evict(folder: &Path, bytes_max: u64, may_delete: impl Fn(&String) -> bool) -> io::Result<()> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (Ok(name), metadata) = (entry.file_name().into_string(), entry.metadata()?) else { continue };
        if is_sha256(&name) {
            bytes += metadata.len();
            files.push((metadata.modified()?, metadata.len(), name));
        }
    }
    files.retain(|(_, _, name)| may_delete(name));
    files.sort();
    for (_, length, name) in files {
        if bytes <= bytes_max {
            break;
        }
        fs::remove_file(folder.join(name))?;
        bytes -= length;
    }
    Ok(())
}
