//! Advisory locks on files: one agent per folder, one hook per machine, one supervisor per data folder.
//!
//! The kernel releases a lock when the last descriptor of its file is closed, which also happens after `kill
//! -9`. A lock is therefore never left behind by a crash.

use crate::file::open_regular;
use crate::process::Process;
use fs2::{FileExt, TryLockError};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How much of the text in a lock file is read: a holder is described by the path of its folder, of at most 4 KiB, or a pid.
const HOLDER_BYTES_MAX: u64 = 8 << 10;

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
        // 1. A process opens the file. 2. The file, or a folder above it, is replaced, and its former holder ends. 3. The
        //    process locks a file that nobody else will find, beside the holder of the one at the path.
        loop {
            match Lock::take_opened(path, holder)? {
                Ok(lock) if !is_at(&lock.file, path)? => {}
                taken => return Ok(taken),
            }
        }
    }

    fn take_opened(path: &Path, holder: &str) -> io::Result<Result<Lock, LockHeld>> {
        // a pipe in its place, to which no one writes, is not waited for
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let mut file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
        }
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut held = Vec::new();
                file.take(HOLDER_BYTES_MAX).read_to_end(&mut held)?;
                return Ok(Err(LockHeld(String::from_utf8_lossy(&held).trim().to_owned())));
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

/// Whether an open file is the one at this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a process holds the lock of this file. False if the file cannot be opened.
pub fn is_held(path: &Path) -> bool {
    let Ok((file, _)) = open_regular(path) else { return false };
    // closing the file releases the shared lock
    matches!(FileExt::try_lock_shared(&file), Err(TryLockError::WouldBlock))
}

/// What the kernel appends to the path of a file that was deleted or replaced while a process has it open.
const DELETED: &[u8] = b" (deleted)";

/// A lock that a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The locked file, relative to the folder that was searched.
    pub file: PathBuf,
    /// The process that has acquired the lock.
    pub holder: Process,
}

/// Returns the process that holds the lock of this file, as the kernel knows it: the text in the file may be of another
/// time or folder.
pub fn holder(path: &Path) -> Option<Process> {
    let file = std::fs::metadata(path).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let holders = locks.lines().filter_map(exclusive_lock).filter(|(_, locked)| *locked == file.ino());
    // The kernel's number of a device is not always that of the file's metadata (btrfs), so the lock itself is tested, and
    // only now: a test holds the lock for a moment, which a program that starts would take for another holder.
    //
    // 1. An agent takes a lock, its child inherits it, and the agent ends. 2. The kernel still names the agent. 3. Another
    //    process gets its pid, and does not have the file open. Nor does one that locks a file of the same number on another
    //    file system.
    let candidates = holders.filter_map(|(pid, _)| Process::find(pid));
    candidates.filter(|process| has_open(*process, &file)).find(|_| is_held(path))
}

/// Whether a process has this file open; true if its open files may not be read.
fn has_open(process: Process, file: &Metadata) -> bool {
    let Ok(mut opened) = std::fs::read_dir(format!("/proc/{}/fd", process.pid)) else { return true };
    let is_file = |found: Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
    opened.any(|link| link.is_ok_and(|link| std::fs::metadata(link.path()).is_ok_and(is_file)))
}

/// Returns the locks below a folder that processes hold, also if the files were deleted since, or the folder was replaced
/// by another one of the same name. Sees only processes whose open files this user may read: root those of all, others not
/// even those of their own processes that must not be dumped. [`holder`] finds these.
pub fn held_below(folder: &Path) -> Vec<HeldLock> {
    let Some(folder) = canonical(folder) else { return Vec::new() };
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut inodes = BTreeMap::<i32, BTreeSet<u64>>::new();
    for (pid, inode) in locks.lines().filter_map(exclusive_lock) {
        inodes.entry(pid).or_default().insert(inode);
    }
    let holders = inodes.iter().filter_map(|(pid, inodes)| Some((Process::find(*pid)?, inodes)));
    holders.flat_map(|(holder, inodes)| held_by(holder, inodes, &folder)).collect()
}

/// The processes of this user that hold an exclusive lock and whose open files this user may not read.
pub fn unreadable_holders() -> Vec<Process> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let pids: BTreeSet<i32> = locks.lines().filter_map(exclusive_lock).map(|(pid, _)| pid).collect();
    let is_unreadable = |pid: &i32| {
        let opened = std::fs::read_dir(format!("/proc/{pid}/fd"));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let is_own = |pid: &i32| user_of(*pid) == Some(nix::unistd::geteuid().as_raw());
    let found = pids.into_iter().filter(is_own).filter(is_unreadable);
    found.filter_map(Process::find).collect()
}

/// The effective user of a process. The owner of its folder in /proc is root if it must not be dumped.
fn user_of(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// The path of a folder as the kernel names it, also of one that was deleted. None if the kernel has none for it, such as
/// after a lazy unmount.
fn canonical(folder: &Path) -> Option<PathBuf> {
    match (folder.canonicalize(), std::fs::metadata(folder)) {
        (Ok(path), Ok(own)) => {
            let found = std::fs::metadata(&path).ok()?;
            ((found.dev(), found.ino()) == (own.dev(), own.ino())).then_some(path)
        }
        _ => Some(folder.parent()?.canonicalize().ok()?.join(folder.file_name()?)),
    }
}

/// The holder and the inode in a line of `/proc/locks`, for example `1: FLOCK  ADVISORY  WRITE 9395 fe:00:5365844 0 EOF`.
/// None if the lock is of another kind.
fn exclusive_lock(line: &str) -> Option<(i32, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ["FLOCK", _, "WRITE", pid, file, ..] = fields.get(1..)? else { return None };
    Some((pid.parse().ok()?, file.rsplit(':').next()?.parse().ok()?))
}

/// The locks below a folder among the open files of a process that holds the locks of these inodes.
fn held_by(holder: Process, inodes: &BTreeSet<u64>, folder: &Path) -> Vec<HeldLock> {
    let opened = std::fs::read_dir(format!("/proc/{}/fd", holder.pid)).into_iter().flatten().flatten();
    let held = opened.filter_map(|link| {
        let path = std::fs::read_link(link.path()).ok()?;
        let path = path.as_os_str().as_bytes();
        let path = Path::new(OsStr::from_bytes(path.strip_suffix(DELETED).unwrap_or(path)));
        let file = path.strip_prefix(folder).ok()?.to_path_buf();
        let is_locked = inodes.contains(&std::fs::metadata(link.path()).ok()?.ino());
        is_locked.then_some(HeldLock { file, holder })
    });
    held.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_file_that_was_replaced_is_not_the_lock_of_its_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.lock");
        let opened = File::create(&path).expect("made");
        assert!(is_at(&opened, &path).expect("it can be read"));
        std::fs::remove_file(&path).expect("deleted");
        assert!(!is_at(&opened, &path).expect("it can be read"), "deleted");
        std::fs::write(&path, "").expect("made again");
        assert!(!is_at(&opened, &path).expect("it can be read"), "replaced");
    }

    /// The process that has acquired a lock has closed its file, and a child still has it: the kernel names the former one.
    #[test]
    fn a_process_that_does_not_have_the_file_open_is_not_its_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.lock");
        let lock = Lock::take(&path, "me").expect("it can be opened").expect("it is free");
        let inherited = lock.duplicate().expect("few files are open");
        let mut child = std::process::Command::new("cat");
        child.stdin(std::process::Stdio::piped()).stdout(inherited);
        let mut running = child.spawn().expect("it runs");
        drop((child, lock));
        let found = holder(&path);
        assert!(is_held(&path), "by the child");
        drop(running.stdin.take());
        running.wait().expect("it ends");
        assert_eq!(found, None, "the kernel names this process");
    }

    #[test]
    fn a_held_lock_is_found_when_its_file_was_overwritten_or_deleted_and_not_below_a_copy() {
        let outer = tempfile::tempdir().expect("a folder");
        let (folder, copy) = (outer.path().join("d"), outer.path().join("d2"));
        for folder in [&folder, &copy] {
            std::fs::create_dir(folder).expect("made");
        }
        let file = folder.join("a.lock");
        let held = HeldLock { file: "a.lock".into(), holder: Process::current() };
        assert_eq!(holder(&file), None);
        let lock = Lock::take(&file, "me").expect("it can be opened").expect("it is free");
        assert_eq!(holder(&file), Some(Process::current()));
        assert_eq!(held_below(&folder), std::slice::from_ref(&held));
        std::fs::write(&file, "another text").expect("overwritten");
        std::fs::copy(&file, copy.join("a.lock")).expect("copied");
        assert_eq!((holder(&file), holder(&copy.join("a.lock"))), (Some(Process::current()), None));
        assert_eq!((held_below(&folder), held_below(&copy)), (vec![held.clone()], vec![]));
        std::fs::remove_dir_all(&folder).expect("deleted");
        std::fs::create_dir(&folder).expect("another folder of this name");
        assert_eq!(held_below(&folder), [held]);
        drop(lock);
        assert_eq!(held_below(&folder), []);
    }
}
