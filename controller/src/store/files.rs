//! Files that the store keeps for all controllers: charm archives and files of resources, by their digest.
//!
//! The embedded engine keeps none: the data folder of its one controller has them. With etcd they are in etcd, and the data
//! folder of each controller is a cache ([`crate::shared_files`]).

#[cfg(feature = "etcd")]
use super::etcd::EtcdFiles;
use super::outage::Outage;
use crate::disk_threads::DiskThreads;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Why a file was not stored or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The store cannot be used.
    #[error("{0}")]
    Outage(Outage),
    /// The file in the data folder cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its content has another digest.
    #[error("the file is damaged")]
    Damaged,
    /// Another controller has deleted the file meanwhile, again and again.
    #[error("the file was deleted meanwhile")]
    Deleted,
}

/// A complete or incomplete file of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// When it was last uploaded or looked up by a controller, as a revision of the store.
    pub revision: u64,
    /// Whether all of it is there. An upload is in progress otherwise, or has ended half way.
    pub is_complete: bool,
}

/// The files of a store. Uninhabited if no engine of this program keeps files.
#[derive(Clone)]
pub enum StoreFiles {
    /// In etcd.
    #[cfg(feature = "etcd")]
    Etcd(EtcdFiles),
}

/// Evaluates an expression for the engine that is open.
macro_rules! of_engine {
    ($files:expr, $of:ident => $value:expr) => {
        match *$files {
            #[cfg(feature = "etcd")]
            StoreFiles::Etcd(ref $of) => $value,
        }
    };
}

#[cfg_attr(not(feature = "etcd"), expect(unused_variables, reason = "there is no engine with files"))]
impl StoreFiles {
    /// Stores a file that has this digest. It is complete when this returns; until then no reader sees it.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn put(&self, sha256: &str, file: &Path, disk: &DiskThreads) -> Result<(), FileError> {
        of_engine!(self, files => files.put(sha256, file, disk).await)
    }

    /// Reads a file, verifies its digest and, if `to` is given, appends it to this file. False if it is not stored.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn fetch(
        &self,
        sha256: &str,
        to: Option<&Path>,
        disk: &DiskThreads,
    ) -> Result<bool, FileError> {
        of_engine!(self, files => files.fetch(sha256, to, disk).await)
    }

    /// Records that a file is needed, so that no controller deletes it for a while. False if it is not stored completely.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn record_needed(&self, sha256: &str) -> Result<bool, FileError> {
        of_engine!(self, files => files.record_needed(sha256).await)
    }

    /// Returns the state of all files, by digest.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn list(&self) -> Result<BTreeMap<String, FileState>, FileError> {
        of_engine!(self, files => files.list().await)
    }

    /// Deletes a file, unless a controller has uploaded or looked it up since it had this revision. Returns whether it is
    /// absent now.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn delete(&self, sha256: &str, revision: u64) -> Result<bool, FileError> {
        of_engine!(self, files => files.delete(sha256, revision).await)
    }
}
