//! Determines whether a write failed because a limit of the host is reached: the disk, a quota (EDQUOT), or the size of a
//! file (EFBIG, `ulimit -f`).
//!
//! SQLite has a code for a full disk only, and reports the other two like a disk that fails. A limit breaks no guarantee:
//! what was synced stays, the failed commit lacks its last frame, and the same request succeeds once the limit is raised.
//! Called by the writer for errors of writes.

use host::file::is_disk_full;
use rusqlite::ErrorCode;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// What one frame of the WAL takes, rounded up to blocks of the disk.
const PROBE_BYTES: usize = 8192;

/// The limits of the folder of a database.
pub(super) struct WriteLimit {
    file: PathBuf,
}

impl WriteLimit {
    pub(super) fn new(file: PathBuf) -> WriteLimit {
        WriteLimit { file }
    }

    /// Whether this error of a write reports a limit.
    pub(super) fn is_reached(&self, error: &rusqlite::Error) -> bool {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => true,
            Some(ErrorCode::SystemIoFailure) => self.probe().is_err_and(|error| is_disk_full(&error)),
            _ => false,
        }
    }

    /// Writes where the longest file of the database ends, into a sparse file beside it.
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
