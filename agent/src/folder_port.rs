//! The port to the files of a unit's folder, which the journal and the view cache use.
//!
//! Implemented by `folder` for a real disk, and by the simulator's disk.

use crate::ports::DiskError;
use std::future::Future;

/// The file that holds `Local` with all events up to the index of a journal document, which it stores.
pub const STATE: &str = "state.yaml";
/// The file that holds the events of the later journal documents.
pub const JOURNAL: &str = "journal.yaml";
/// The file that holds the error of the last request of a running unit agent to the controller, while its requests fail:
/// one line.
pub const CONTROLLER_ERROR: &str = "controller-error";
/// The suffix of the name of a damaged file that was set aside; a number follows it.
pub const SET_ASIDE: &str = ".corrupt-";

/// Damaged files of one name that are kept: the first seven, which show how the damage began, and the newest. A journal
/// has at most 1 MiB.
pub const SET_ASIDE_KEPT: u32 = 8;

/// Whether this is the name of a damaged file that was set aside.
pub fn is_set_aside(name: &str) -> bool {
    let number = |file: &&str| name.strip_prefix(*file)?.strip_prefix(SET_ASIDE);
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit());
    [STATE, JOURNAL].iter().find_map(number).is_some_and(is_number)
}

/// The journal is compacted beyond this size, so that replaying it takes tens of milliseconds (invariant I42).
pub const JOURNAL_BYTES_MAX: usize = 1 << 20;

/// The operations on the unit's folder that the stored state needs. The simulator's disk implements them too.
pub trait FolderFiles {
    /// The content of a file. None if it does not exist.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Vec<u8>>, DiskError>>;
    /// Appends to the content of a file and syncs all of it. The content has `length` bytes; newlines may follow it, which
    /// are overwritten.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be written or synced. Its content is then unknown.
    fn append(&self, name: &str, length: usize, bytes: &[u8]) -> impl Future<Output = Result<(), DiskError>>;
    /// Replaces a file atomically and durably: writes a temporary file, syncs it, renames it, and syncs the
    /// folder.
    ///
    /// # Errors
    /// If one of these steps fails. The file then has its old or its new content.
    fn write_atomic(&self, name: &str, bytes: &[u8]) -> impl Future<Output = Result<(), DiskError>>;
    /// Replaces a file of a cache atomically, without a sync. `None` deletes the file. Returns whether the file is as
    /// requested; an error is logged.
    fn cache(&self, name: &str, bytes: Option<&[u8]>) -> impl Future<Output = bool>;
    /// Renames a damaged file, and returns its new name. If [`SET_ASIDE_KEPT`] such files exist, the newest one is replaced.
    ///
    /// # Errors
    /// If the file cannot be renamed, or the folder cannot be synced.
    fn set_aside(&self, name: &str) -> impl Future<Output = Result<String, DiskError>>;
    /// Stores the error of the last request to the controller, for people; `None` deletes it. It is not synced, and an
    /// error of the disk is ignored.
    fn store_controller_error(&self, _error: Option<&str>) {}
    /// The size of the journal beyond which it is compacted into the state.
    fn journal_bytes_max(&self) -> usize {
        JOURNAL_BYTES_MAX
    }
}
