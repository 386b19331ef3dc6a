//! The system calls of the shim on files, pipes, its own limits and the clock.

use core::ffi::CStr;

use super::{Errno, Fd, number, system, uninterrupted};

const AT_FDCWD: usize = -100isize as usize;
const WRITE_ONLY: usize = 0o1;
const CREATE: usize = 0o100;
const READ_WRITE: usize = 2;
const EXCLUSIVE: usize = 0o200;
const TRUNCATE: usize = 0o1000;
const APPEND: usize = 0o2000;
const CLOSED_ON_EXEC: usize = 0o2_000_000;

/// The number of the limit of the size of the stack.
pub const RLIMIT_STACK: usize = 3;
/// The number of the limit of the size of core files.
pub const RLIMIT_CORE: usize = 4;
/// The number of the limit of open files.
pub const RLIMIT_NOFILE: usize = 7;

/// How a file is opened. All are closed in a program that this process starts.
#[derive(Clone, Copy)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for its owner only. It is an error if it exists.
    CreateNew,
    /// A file for appending. It is created, for its owner only, if it does not exist.
    Append,
    /// An existing file, for writing over its first bytes.
    Overwrite,
    /// An empty file, created or truncated, whose mode the umask restricts.
    Truncate,
}

/// Opens a file.
///
/// # Errors
/// If the file does not exist, exists and must not, or may not be opened, or this process has too many open files.
pub fn open(path: &CStr, how: Open) -> Result<Fd, Errno> {
    let (flags, mode) = match how {
        Open::Read => (0, 0),
        Open::ReadWrite => (READ_WRITE, 0),
        Open::CreateNew => (WRITE_ONLY | CREATE | EXCLUSIVE, 0o600),
        Open::Append => (WRITE_ONLY | CREATE | APPEND, 0o600),
        Open::Overwrite => (WRITE_ONLY, 0),
        Open::Truncate => (WRITE_ONLY | CREATE | TRUNCATE, 0o666),
    };
    let open = [AT_FDCWD, path.as_ptr() as usize, flags | CLOSED_ON_EXEC, mode, 0, 0];
    // SAFETY: the kernel reads that path only.
    unsafe { uninterrupted(number::OPENAT, open) }
}

/// Renames a file. An existing file at `to` is replaced.
///
/// # Errors
/// If the file does not exist, or the folder cannot be written.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Errno> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: the kernel reads these paths only.
    unsafe { system(number::RENAMEAT, [AT_FDCWD, from, AT_FDCWD, to, 0, 0]) }.map(drop)
}

/// Makes the root the working directory, so that this process keeps no file system busy.
pub fn enter_root() {
    // SAFETY: the kernel reads that path only.
    let _ = unsafe { system(number::CHDIR, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Removes a file. Errors are ignored, because nothing can be done about them here.
pub fn remove(path: &CStr) {
    // SAFETY: the kernel reads that path only.
    let _ = unsafe { system(number::UNLINKAT, [AT_FDCWD, path.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Creates a pipe. Returns the end to read from and the end to write to.
///
/// # Errors
/// If this process has too many open files.
pub fn pipe() -> Result<(Fd, Fd), Errno> {
    let mut ends = [0i32; 2];
    // SAFETY: the kernel writes into that array only.
    unsafe { system(number::PIPE2, [ends.as_mut_ptr() as usize, CLOSED_ON_EXEC, 0, 0, 0, 0]) }?;
    Ok((ends[0] as Fd, ends[1] as Fd))
}

/// The time of the monotonic clock in milliseconds.
pub fn now_ms() -> u64 {
    const MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes into that array only.
    let _ = unsafe { system(number::CLOCK_GETTIME, [MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0] * 1000 + time[1] / 1_000_000
}

/// A limit of this process and of those that it starts: soft and hard.
type Limit = [u64; 2];

/// Sets a soft limit, at most the hard one. A limit that cannot be set is kept: the hook starts nevertheless.
pub fn limit(resource: usize, soft_max: u64) {
    let Ok([soft, hard]) = prlimit(resource, None) else { return };
    let wanted = soft_max.min(hard);
    if soft != wanted {
        let _ = prlimit(resource, Some([wanted, hard]));
    }
}

/// Returns a limit, and replaces it by `change` if that is given.
fn prlimit(resource: usize, change: Option<Limit>) -> Result<Limit, Errno> {
    let mut before = Limit::default();
    let change = change.as_ref().map_or(0, |change| change.as_ptr() as usize);
    // SAFETY: the kernel reads `change`, if there is one, and writes `before`.
    unsafe { system(number::PRLIMIT, [0, resource, change, before.as_mut_ptr() as usize, 0, 0]) }?;
    Ok(before)
}

/// Sets the mask of the modes of new files.
pub fn umask(mask: usize) {
    // SAFETY: no pointers.
    let _ = unsafe { system(number::UMASK, [mask, 0, 0, 0, 0, 0]) };
}

/// Closes all descriptors from `first` on.
pub fn close_from(first: Fd) {
    // SAFETY: no pointers.
    let closed = unsafe { system(number::CLOSE_RANGE, [first, u32::MAX as usize, 0, 0, 0, 0]) };
    if closed.is_err() {
        // A kernel before 5.9: no descriptor is above the limit, unless the limit was lowered since.
        let [soft, _] = prlimit(RLIMIT_NOFILE, None).unwrap_or_default();
        (first..soft as usize).for_each(super::close);
    }
}
