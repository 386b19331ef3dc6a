//! Files that are replaced as a whole: a reader, and a program that starts after a crash, finds the old content or the
//! new content, never a part. (Only a power failure can leave a file empty that was written without a sync.)
//!
//! The new content is written to a hidden temporary file in the same folder, which is then renamed over the old file.
//! The temporary name is random and the file is created exclusively, for two reasons: two writers of one file do not
//! write into each other's temporary file, and no planted link is followed in a folder that another user may write to
//! (for example a container's). The file is readable by its owner only. A temporary file that a crash leaves behind is
//! never read.
//!
//! The crate `tempfile` is not used because it renames with a raw system call, which the library of
//! `tests/crash_points` cannot intercept.

use nix::fcntl::{AT_FDCWD, RenameFlags};
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Replaces the file at `path`, durably: when this returns, the new content survives a power failure.
///
/// # Errors
/// If the file cannot be written, renamed or synced: the old content is kept. If only the sync of the folder fails, the file
/// has the new content, which a power failure may undo.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic_with(path, |_| bytes.to_vec())
}

/// Replaces the file at `path`, durably, with a content that may depend on the new file itself, which keeps its inode.
///
/// # Errors
/// If the file cannot be written, renamed or synced: the old content is kept. If only the sync of the folder fails, the file
/// has the new content, which a power failure may undo.
pub fn write_atomic_with(path: &Path, content: impl FnOnce(&Metadata) -> Vec<u8>) -> io::Result<()> {
    replace(path, content, File::sync_all)?;
    sync_folder(folder_of(path))
}

/// Replaces the file at `path` without a sync. After a power failure the file may have the old content, the new
/// content, or be empty. Use it for content that is derived from other data, or that a power failure
/// invalidates, such as pid files.
///
/// # Errors
/// If the file cannot be written or renamed; the old content is kept.
pub fn write_atomic_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |_| bytes.to_vec(), |_| Ok(()))
}

/// Whether there is a file or folder at `path`. Unlike [`Path::exists`], an error does not count as absence, after which
/// a caller would make again, replace or delete what it cannot see.
///
/// # Errors
/// If this cannot be determined; the error names the path.
pub fn exists(path: &Path) -> io::Result<bool> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot determine whether {} exists: {error}", path.display()))
    };
    match path.try_exists() {
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false), // it would be below a file
        other => other.map_err(named),
    }
}

/// Makes renames, creations and removals in a folder durable.
///
/// # Errors
/// If the folder cannot be opened or synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    // a pipe in the place of a folder is not waited for
    let flags = nix::fcntl::OFlag::O_DIRECTORY.bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.sync_all()
}

/// Exchanges the names of two folders, atomically and durably: after a crash each has its old name or its new one, and
/// never is one of the names missing.
///
/// # Errors
/// If they cannot be exchanged, for example because the file system has no such operation: nothing was changed. If only
/// the sync of the folders above them fails, a power failure may undo the exchange.
pub fn exchange_folders(one: &Path, other: &Path) -> io::Result<()> {
    nix::fcntl::renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?;
    sync_folder(folder_of(one))?;
    sync_folder(folder_of(other))
}

/// Creates a folder that only its owner can access, with the folders above it; succeeds if it exists.
///
/// # Errors
/// If it cannot be created.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a folder that only its owner can access, in a folder that exists; succeeds if it exists. For a folder that a
/// person may delete, in one that a person may move: nothing is created where the latter was.
///
/// # Errors
/// If it cannot be created. `NotFound` if the folder above it does not exist.
pub fn create_private_folder_in(parent: &Path, name: &OsStr) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(parent.join(name)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// The bytes that a file occupies on its disk: its blocks, of 512 bytes each.
pub fn disk_bytes(file: &Metadata) -> u64 {
    file.blocks() * 512
}

/// Opens a file in a folder that others may write to: what is no regular file, such as a pipe that no one writes to, is
/// not waited for.
///
/// # Errors
/// If it cannot be opened. `InvalidData` if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    match found.is_file() {
        true => Ok((file, found)),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file")),
    }
}

/// Reads a file as [`open_regular`] opens it; a file without an end is not read.
///
/// # Errors
/// If it cannot be opened or read. `InvalidData` if it is no regular file, or has more than `bytes_max` bytes.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let invalid = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let (file, found) = open_regular(path)?;
    let mut bytes = Vec::new();
    if found.len() <= bytes_max {
        // it may grow meanwhile
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    }
    match found.len().max(bytes.len() as u64) > bytes_max {
        true => Err(invalid(format!("it has more than {bytes_max} bytes"))),
        false => Ok((bytes, found)),
    }
}

/// Reads a text as [`read_regular`] reads its bytes.
///
/// # Errors
/// As [`read_regular`]. `InvalidData` if it is not UTF-8, too.
pub fn read_regular_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let (bytes, _) = read_regular(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Opens a file of this process in a folder that others may write to, and appends to it. It is created for its owner only,
/// if it does not exist. What is no regular file is not waited for, and what the name only refers to, as a link, is not
/// opened: it may belong to another.
///
/// # Errors
/// If it cannot be opened. `InvalidData` if it is no regular file, or has a second name. A link has the error of the system
/// call.
pub fn append_regular(path: &Path) -> io::Result<File> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW;
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags.bits()).open(path)?;
    match is_of_one_name(&file.metadata()?) {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file of one name")),
    }
}

/// Whether it is a regular file that has no second name, under which another may know it.
pub fn is_of_one_name(file: &Metadata) -> bool {
    file.is_file() && file.nlink() <= 1
}

/// Maps the error "not found" to `None`. For reading or removing files that may be absent.
pub fn ignore_not_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds the path to the text of an error that is one of the path: it is missing, of another kind, or not permitted. Errors
/// of the host, such as a limit, stay as they are.
pub fn with_path(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::PermissionDenied => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
        _ => error,
    }
}

/// Whether the error means that the disk or the quota of the user is full, or the limit of the size of files is reached
/// (`ulimit -f`), so that a later attempt may succeed.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Whether a file of this name may be the remainder of an interrupted [`write_atomic`]. Such a file is hidden
/// and is never read.
pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn replace(
    path: &Path,
    content: impl FnOnce(&Metadata) -> Vec<u8>,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{:032x}", crate::random::random_u128()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = keep_owner(path, &file);
    let written =
        written.and_then(|()| file.metadata()).and_then(|metadata| file.write_all(&content(&metadata)));
    let written = written.and_then(|()| sync(&file)).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        fs::remove_file(&temporary).ok(); // the first error is the one that matters
    }
    written
}

/// Gives a new file the owner of the file that it replaces: root must not take a file from the user whom it helps.
fn keep_owner(replaced: &Path, file: &File) -> io::Result<()> {
    if geteuid().is_root()
        && let Ok(found) = fs::symlink_metadata(replaced)
        && found.uid() != 0
    {
        std::os::unix::fs::fchown(file, Some(found.uid()), Some(found.gid()))?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;
    use std::time::Duration;

    /// The result of what must not wait for another process. The thread of what does is left behind.
    pub(crate) fn in_time<T: Send + 'static>(done: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(done()));
        receiver.recv_timeout(Duration::from_secs(20)).expect("it waits for another process")
    }

    /// `sudo pintle switch`, in the data folder of a user.
    #[test]
    fn a_file_that_is_replaced_keeps_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("client.yaml");
        fs::write(&path, "old").expect("written");
        let owner = if geteuid().is_root() { 65_534 } else { geteuid().as_raw() };
        std::os::unix::fs::chown(&path, Some(owner), None).expect("root may do that");
        write_atomic(&path, b"new").expect("written");
        assert_eq!(
            (fs::read(&path).expect("readable"), path.metadata().expect("it exists").uid()),
            (b"new".to_vec(), owner)
        );
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        write_atomic(&link, b"other").expect("written");
        let written = link.symlink_metadata().expect("it exists");
        assert_eq!((written.is_file(), written.uid()), (true, geteuid().as_raw()), "not the target's owner");
    }

    #[test]
    fn what_is_no_regular_file_or_too_large_is_neither_waited_for_nor_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let [pipe, zero, file] = ["pipe", "zero", "file"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a new pipe");
        std::os::unix::fs::symlink("/dev/zero", &zero).expect("linked");
        fs::write(&file, "12345").expect("written");
        let read =
            |path: &Path, max| read_regular(path, max).map(|(bytes, _)| bytes).map_err(|error| error.kind());
        for path in [&pipe, &zero] {
            assert_eq!(read(path, 5), Err(ErrorKind::InvalidData), "{}", path.display());
        }
        assert_eq!((read(&file, 5), read(&file, 4)), (Ok(b"12345".to_vec()), Err(ErrorKind::InvalidData)));
    }

    #[test]
    fn only_a_regular_file_of_one_name_is_appended_to() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        append_regular(&path("file")).and_then(|mut file| file.write_all(b"1")).expect("created");
        append_regular(&path("file")).and_then(|mut file| file.write_all(b"2")).expect("it exists");
        assert_eq!(read_regular_text(&path("file"), 2).expect("there"), "12");
        std::os::unix::fs::symlink(path("file"), path("link")).expect("linked");
        std::os::unix::fs::symlink(path("absent"), path("dangling")).expect("linked");
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a new pipe");
        for name in ["link", "dangling", "pipe"] {
            let path = path(name);
            in_time(move || append_regular(&path)).expect_err("it is no regular file");
        }
        assert!(!path("absent").exists());
        fs::hard_link(path("file"), path("second")).expect("linked");
        append_regular(&path("second")).expect_err("it has a second name");
        fs::write(path("file"), b"\xff").expect("written");
        let not_text = read_regular_text(&path("file"), 2).map_err(|error| error.kind());
        assert_eq!(not_text, Err(ErrorKind::InvalidData));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_with_mode_0600_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        write_atomic(&path, b"long text").expect("written");
        write_atomic_unsynced(&path, b"short").expect("written again");
        assert_eq!(fs::read_to_string(&path).expect("there"), "short");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        write_atomic(&folder.path().join("x.yaml/below"), b"").expect_err("a file is no folder");
        fs::create_dir(folder.path().join("taken")).expect("made");
        write_atomic(&folder.path().join("taken"), b"").expect_err("a folder is not replaced");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2, "no temporary file is left");
    }

    #[test]
    fn what_cannot_be_seen_does_not_count_as_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("there"), "").expect("written");
        std::os::unix::fs::symlink("endless", path("endless")).expect("linked");
        assert!(exists(&path("there")).expect("it is seen"));
        assert!(!exists(&path("absent")).expect("it is seen"));
        assert!(!exists(&path("there/below")).expect("a file is no folder"));
        exists(&path("endless")).expect_err("the link cannot be followed");
    }

    #[test]
    fn writers_of_one_file_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("archive");
        let content = vec![7; 1 << 16];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope
                    .spawn(|| (0..20).for_each(|_| write_atomic_unsynced(&path, &content).expect("written")));
            }
        });
        assert_eq!(fs::read(&path).expect("there"), content);
    }
}
