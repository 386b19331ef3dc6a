//! Advisory locks on files: one agent per folder, one hook per machine, one supervisor per data folder.
//!
//! The kernel releases a lock when the last descriptor of its file is closed, which also happens after `kill
//! -9`. A lock is therefore never left behind by a crash.

use fs2::{FileExt, TryLockError};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock that this process holds.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Another process holds the lock. The text is the `holder` that this process wrote into the file.
#[derive(Debug)]
pub struct LockHeld(pub String);

impl Lock {
    /// Acquires the lock without waiting. `holder` describes this process; it is written into the file, and is
    /// returned to processes that cannot acquire the lock.
    ///
    /// # Errors
    /// If the file cannot be opened or locked. The inner error: another process holds the lock.
    pub fn take(path: &Path, holder: &str) -> io::Result<Result<Lock, LockHeld>> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut held = String::new();
                file.read_to_string(&mut held)?;
                return Ok(Err(LockHeld(held.trim().to_owned())));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A file that was truncated to nothing and written again is flushed to the disk when it is closed (ext4), which
        // would delay the next hook: only what is left of a longer holder is cut off.
        file.write_all(holder.as_bytes())?;
        let length = file.stream_position()?;
        if file.metadata()?.len() > length {
            file.set_len(length)?;
        }
        Ok(Ok(Lock { file }))
    }

    /// A duplicate of the descriptor for a child process to inherit: the lock is held until both are closed
    /// (dependencies T6).
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn duplicate(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Releases the lock at once, for all duplicates of its descriptor. Closing the descriptor is not enough
    /// while a child process has been forked but has not executed its program yet, because the child still has
    /// the file open. Must not be called for a lock of which a child inherited a duplicate.
    ///
    /// # Errors
    /// If the lock cannot be released.
    pub fn release(&self) -> io::Result<()> {
        FileExt::unlock(&self.file)
    }
}

/// Whether a process holds the lock of this file. False if the file cannot be opened.
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // closing the file releases the shared lock
    matches!(FileExt::try_lock_shared(&file), Err(TryLockError::WouldBlock))
}
