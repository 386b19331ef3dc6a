//! Advisory locks on files: one agent per folder, one hook per machine, one supervisor per data folder.
//!
//! The kernel releases a lock when the last copy of its file is closed, also after `kill -9`.

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

/// Another process holds the lock. The text is what that process wrote into the file about itself.
#[derive(Debug)]
pub struct Held(pub String);

impl Lock {
    /// Takes the lock without waiting. `holder` is written into the file, for those that are refused.
    pub fn take(path: &Path, holder: &str) -> io::Result<Result<Lock, Held>> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut held = String::new();
                file.read_to_string(&mut held)?;
                return Ok(Err(Held(held.trim().to_owned())));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(holder.as_bytes())?;
        Ok(Ok(Lock { file }))
    }

    /// A copy for a child process to inherit: the lock is held until both are closed (dependencies T6).
    pub fn copy(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Releases the lock at once, for all copies. Closing alone does not while a process that was just forked, and has
    /// not run its program yet, still has the file open. Not for a lock of which a copy was handed on.
    pub fn release(&self) -> io::Result<()> {
        FileExt::unlock(&self.file)
    }
}
