//! A folder that a process uses for long, known by itself and not by its path: a person may move or delete it, or mount
//! another disk over it, and the process must not continue with whatever is at the path then.
//!
//! Used by the supervisor and the machine agent, which end when their folder is no longer in place.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A folder that is held open, so that no other folder gets its inode.
#[derive(Debug)]
pub struct OpenFolder {
    folder: File,
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// If it does not exist, is no folder, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<OpenFolder> {
        let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_DIRECTORY;
        let folder = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        Ok(OpenFolder { folder, path: path.to_owned() })
    }

    /// Whether the folder is where it was opened. A path that cannot be examined, for example because a disk fails, counts as
    /// in place: only the absence of the folder, or another file in its place, says otherwise.
    pub fn is_in_place(&self) -> bool {
        match (std::fs::metadata(&self.path), self.folder.metadata()) {
            (Ok(found), Ok(own)) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
            (Err(error), _) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
            (Ok(_), Err(_)) => true,
        }
    }

    /// Whether the folder is in no other folder any more.
    pub fn is_deleted(&self) -> bool {
        self.folder.metadata().is_ok_and(|own| own.nlink() == 0)
    }

    /// A path of the folder, wherever it is now. Only this process can use it, as long as the value lives.
    pub fn current_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_moved_a_replaced_and_a_deleted_folder_are_not_in_place() {
        let outer = tempfile::tempdir().expect("a folder");
        let (path, other) = (outer.path().join("own"), outer.path().join("other"));
        fs::create_dir(&path).expect("made");
        let folder = OpenFolder::open(&path).expect("it exists");
        let states = || (folder.is_in_place(), folder.is_deleted());
        assert_eq!(states(), (true, false));
        fs::rename(&path, &other).expect("moved");
        assert_eq!(states(), (false, false));
        fs::create_dir(&path).expect("replaced");
        assert_eq!(states(), (false, false));
        fs::write(other.join("file"), "its content").expect("written");
        let content = fs::read_to_string(folder.current_path().join("file"));
        assert_eq!(content.expect("it is reached where it is"), "its content");
        fs::remove_dir(&path).expect("it is empty");
        fs::rename(&other, &path).expect("moved back");
        assert_eq!(states(), (true, false));
        fs::remove_dir_all(&path).expect("deleted");
        assert_eq!(states(), (false, true));
        fs::write(&path, "").expect("a file in its place");
        assert_eq!(states(), (false, true));
        assert!(OpenFolder::open(&path).is_err());
    }
}
