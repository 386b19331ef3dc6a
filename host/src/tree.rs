//! Deletes a folder with everything in it, however deeply it is nested.
//!
//! The standard library holds one descriptor open for each level, and a charm can nest folders more deeply than a process
//! may have files open. Folders below the 50th level are therefore moved up into the root first. Symbolic links are not
//! followed, and nothing is deleted while something is mounted in the folder: the mounted content belongs to somebody else.
//! What another process deletes at the same time is no error.
//! Used for folders that charms can write to.

use crate::file::ignore_not_found;
use crate::mounts::verify_nothing_mounted;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The levels that are visited with one open folder each.
const DEPTH_MAX: u32 = 50;

/// Deletes a file, or a folder with everything in it. Succeeds if there is none.
///
/// # Errors
/// If something is mounted in it; everything is left then. If something in it cannot be deleted; a part of it may be left.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_counting(path, &AtomicU64::new(0))
}

/// Like [`remove`], and counts in `removed` what was deleted so far.
///
/// # Errors
/// As there.
pub fn remove_counting(path: &Path, removed: &AtomicU64) -> io::Result<()> {
    let Some(found) = ignore_not_found(fs::symlink_metadata(path))? else { return Ok(()) };
    if !found.is_dir() {
        return ignore_not_found(fs::remove_file(path)).map(drop);
    }
    if let Err(error) = verify_nothing_mounted(path) {
        return if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    }
    let Some(root) = ignore_not_found(open(path, flags(), Mode::empty()).map_err(io::Error::from))? else {
        return Ok(());
    };
    flatten(&root)?;
    clear(&root, removed)?;
    ignore_not_found(fs::remove_dir(path)).map(drop)
}

/// Deletes what is in a folder, of at most [`DEPTH_MAX`] levels.
fn clear(folder: &OwnedFd, removed: &AtomicU64) -> io::Result<()> {
    let delete = |name: &OsStr, flag: UnlinkatFlags| match unlinkat(folder, name, flag) {
        Ok(()) => {
            removed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(io::Error::from(error)),
    };
    // the list is closed before a folder in it is opened
    let mut folders = Vec::new();
    for entry in fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => folders.push(entry.file_name()),
            false => delete(&entry.file_name(), UnlinkatFlags::NoRemoveDir)?,
        }
    }
    for name in folders {
        let Some(below) = open_below(folder, &name)? else { continue };
        clear(&below, removed)?;
        delete(&name, UnlinkatFlags::RemoveDir)?;
    }
    Ok(())
}

fn flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Moves the folders below [`DEPTH_MAX`] to the first level, until there are none.
fn flatten(root: &OwnedFd) -> io::Result<()> {
    // a name that neither a charm nor an earlier deletion that was interrupted has used
    let prefix = format!(".nested-{:032x}", crate::random::random_u128());
    let (mut pending, mut number) = (vec![OsString::from(".")], 0_u64);
    while let Some(folder) = pending.pop() {
        let mut move_up = |parent: &OwnedFd, name: &OsStr| {
            number += 1;
            let target = OsString::from(format!("{prefix}-{number}"));
            match renameat(parent, name, root, target.as_os_str()) {
                Ok(()) => pending.push(target),
                Err(Errno::ENOENT) => {} // deleted by another process meanwhile
                Err(error) => return Err(error.into()),
            }
            Ok(())
        };
        if let Some(folder) = open_below(root, &folder)? {
            visit(&folder, 1, &mut move_up)?;
        }
    }
    Ok(())
}

/// Calls `move_up` for each folder of the level [`DEPTH_MAX`].
fn visit(
    folder: &OwnedFd,
    depth: u32,
    move_up: &mut impl FnMut(&OwnedFd, &OsStr) -> io::Result<()>,
) -> io::Result<()> {
    // listed first, because the folder changes while it is visited
    let mut folders = Vec::new();
    for entry in fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.file_name());
        }
    }
    for name in folders {
        if depth >= DEPTH_MAX {
            move_up(folder, &name)?;
        } else {
            if let Some(below) = open_below(folder, &name)? {
                visit(&below, depth + 1, move_up)?;
            }
        }
    }
    Ok(())
}

/// Opens a folder in a folder. None if another process has deleted it meanwhile.
fn open_below(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    ignore_not_found(openat(folder, name, flags(), Mode::empty()).map_err(io::Error::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::mkdirat;

    /// Makes folders within each other, more than a path can name, each with a file and a link.
    fn nest(root: &Path, levels: u32) {
        let mut folder = open(root, flags(), Mode::empty()).expect("it exists");
        for _ in 0..levels {
            mkdirat(&folder, "d", Mode::S_IRWXU).expect("a new folder");
            folder = openat(&folder, "d", flags(), Mode::empty()).expect("it exists");
            let file = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            drop(openat(&folder, "f", file, Mode::S_IRWXU).expect("a new file"));
            nix::unistd::symlinkat("/", &folder, "link").expect("a new link");
        }
    }

    #[test]
    fn folders_that_are_nested_more_deeply_than_files_may_be_open_are_deleted() {
        const NESTED: &str = "PINTLE_TEST_NESTED_TREE";
        if let Some(root) = std::env::var_os(NESTED) {
            return remove(Path::new(&root)).expect("deleted");
        }
        let parent = tempfile::tempdir().expect("a folder");
        let root = parent.path().join("root");
        fs::create_dir_all(root.join("wide/a")).expect("created");
        nest(&root, 3_000);
        nest(&root.join("wide"), 300);
        // this test again, in a process that may open few files
        let limited = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 100; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().expect("it has a path"))
            .arg("tree::tests::folders_that_are_nested_more_deeply_than_files_may_be_open_are_deleted")
            .env(NESTED, &root)
            .output()
            .expect("it runs");
        assert!(limited.status.success(), "{limited:?}");
        assert!(!root.exists());
    }

    #[test]
    fn a_file_is_deleted_a_link_is_not_followed_and_nothing_is_no_error() {
        let parent = tempfile::tempdir().expect("a folder");
        let (kept, link) = (parent.path().join("kept"), parent.path().join("link"));
        fs::create_dir_all(kept.join("below")).expect("created");
        std::os::unix::fs::symlink(&kept, &link).expect("linked");
        for path in [&link, &parent.path().join("none")] {
            remove(path).expect("deleted");
        }
        assert!(kept.join("below").exists() && !link.exists());
    }
}
