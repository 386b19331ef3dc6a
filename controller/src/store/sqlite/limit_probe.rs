//! Determines whether a write failed because a limit of the host is reached: the disk, a quota (EDQUOT), or the size of a
//! file (EFBIG, `ulimit -f`).
//!
//! SQLite has a code for a full disk only, and reports the other two like a disk that fails. A limit breaks no guarantee:
//! what was synced stays, a commit whose write failed lacks its last frame, and the same request succeeds once the limit is raised.
//! Called by the writer for errors of writes.

use host::file::is_disk_full;
use rusqlite::{ErrorCode, ffi};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// A frame of the WAL, a header of 24 bytes and a page of 4096, rounded up to two blocks of the disk of 4096.
const PROBE_BYTES: usize = 8192;

/// Whether the error is that of a write, before the commit is complete in the WAL. After a failed sync the WAL may contain
/// all of it, so that a restart could apply what was refused: the store is broken then, whatever the reason.
fn is_before_commit(error: &rusqlite::Error) -> bool {
    let writes = [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_TRUNCATE];
    error.sqlite_extended_error_code().is_some_and(|code| writes.contains(&code))
}

/// Detects that a limit is reached, by a test write beside the file of the database.
pub(super) struct LimitProbe {
    file: PathBuf,
}

impl LimitProbe {
    pub(super) fn new(file: PathBuf) -> LimitProbe {
        LimitProbe { file }
    }

    /// Whether this error of a write reports a limit.
    pub(super) fn is_reached(&self, error: &rusqlite::Error) -> bool {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            Some(ErrorCode::SystemIoFailure) => {
                is_before_commit(error) && self.probe().is_err_and(|error| is_disk_full(&error))
            }
            _ => false,
        }
    }

    /// Writes one frame into a sparse file beside the database, where the longer of its files ends.
    fn probe(&self) -> io::Result<()> {
        let files = [self.file.clone(), self.file.with_extension("sqlite-wal")];
        let lengths = files.map(|file| file.metadata().map_or(0, |metadata| metadata.len()));
        let path = self.file.with_extension("probe");
        let probe = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let end = lengths.into_iter().max().unwrap_or(0);
        let written = probe.write_all_at(&[0; PROBE_BYTES], end).and_then(|()| probe.sync_data());
        std::fs::remove_file(&path).ok(); // it is truncated before it is used again
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_write_is_known_to_have_committed_nothing() {
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(is_before_commit(&failed(ffi::SQLITE_IOERR_WRITE)));
        assert!(!is_before_commit(&failed(ffi::SQLITE_IOERR_FSYNC)));
        assert!(!is_before_commit(&failed(ffi::SQLITE_IOERR_DIR_FSYNC)));
    }
}
