//! Files that the store keeps for all controllers: charm archives and files of resources, by their digest.
//!
//! The embedded engine keeps none: the data folder of its one controller has them. With etcd they are in etcd, and the data
//! folder of each controller is a cache (`shared_files`).

use super::outage::Outage;
use crate::disk_threads::DiskThreads;
use futures::future::BoxFuture;
use state::documents::draft::Revision;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

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
    pub revision: Revision,
    /// Whether all of it is there. An upload is in progress otherwise, or has ended half way.
    pub is_complete: bool,
}

/// The files of a store. Clones share them.
pub type StoreFiles = Arc<dyn FileStore>;

/// A port to the files of a store. Its calls are boxed, because only files of many kilobytes pass it, and so what uses it is
/// the same code whether or not the store has files.
pub trait FileStore: Send + Sync {
    /// Stores a file that has this digest. It is complete when this returns; until then no reader sees it.
    ///
    /// # Errors
    /// See [`FileError`].
    fn put<'f>(
        &'f self,
        sha256: &'f str,
        file: &'f Path,
        disk: &'f DiskThreads,
    ) -> BoxFuture<'f, Result<(), FileError>>;

    /// Reads a file, verifies its digest and, if `to` is given, appends it to this file. False if it is not stored.
    ///
    /// # Errors
    /// See [`FileError`].
    fn fetch<'f>(
        &'f self,
        sha256: &'f str,
        to: Option<&'f Path>,
        disk: &'f DiskThreads,
    ) -> BoxFuture<'f, Result<bool, FileError>>;

    /// Records that a file is needed, so that no controller deletes it for a while. False if it is not stored completely.
    ///
    /// # Errors
    /// See [`FileError`].
    fn record_needed<'f>(&'f self, sha256: &'f str) -> BoxFuture<'f, Result<bool, FileError>>;

    /// Returns the state of all files, by digest.
    ///
    /// # Errors
    /// See [`FileError`].
    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<String, FileState>, FileError>>;

    /// Deletes a file, unless a controller has uploaded or looked it up since it had this revision. Returns whether it was
    /// deleted.
    ///
    /// # Errors
    /// See [`FileError`].
    fn delete<'f>(&'f self, sha256: &'f str, revision: Revision) -> BoxFuture<'f, Result<bool, FileError>>;
}
