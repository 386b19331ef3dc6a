//! One unit's folder on disk, and how its files are written: beside, synced, renamed, folder synced.

use crate::journal::Files;
use crate::ports::DiskFailed;
use fs2::{FileExt, TryLockError};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Exit code of an agent that ends because its disk failed (sysexits' EX_IOERR).
pub const EXIT_DISK: u8 = 74;

/// `<data>/agents/unit-web-0`; told as `unit-web-0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn new(root: PathBuf) -> Folder {
        Folder { root }
    }
    pub fn root(&self) -> &Path {
        &self.root
    }
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
    pub fn charm(&self) -> PathBuf {
        self.root.join("charm")
    }
    /// The machine's folder: two up.
    pub fn machine(&self) -> PathBuf {
        let up = self.root.parent().and_then(Path::parent);
        up.map_or_else(|| self.root.clone(), Path::to_path_buf)
    }
    /// `unit-web-0`.
    pub fn tag(&self) -> String {
        self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
    pub fn tools(&self) -> PathBuf {
        self.machine().join("tools").join(self.tag())
    }
    /// `hooks/000041`.
    pub fn run(&self, number: u64) -> PathBuf {
        self.root.join("hooks").join(format!("{number:06}"))
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.tag())
    }
}

/// Makes a folder that only its user enters; an existing one of another user is refused.
pub fn private_dir(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "is not a folder of this user"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Writes a whole file so that it is there, whole, after any crash: beside, synced, renamed, folder synced.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let mut file = create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// The same without syncs: whole, but perhaps not there after a power cut.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    create(&beside)?.write_all(bytes)?;
    fs::rename(&beside, path)
}

/// There is no room: tried again, it may work. Every other failure says something about the disk itself.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Of a removal: what was not there is removed.
pub fn gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.new"))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Folder {
    fn failed(&self, name: &str, error: io::Error) -> DiskFailed {
        DiskFailed(format!("{}: {error}", self.file(name).display()))
    }
}

impl Files for Folder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskFailed> {
        match fs::read(self.file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    async fn append(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        let append = || {
            let mut file = OpenOptions::new().append(true).mode(0o600).create(true).open(self.file(name))?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        append().map_err(|error| self.failed(name, error))
    }

    async fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), DiskFailed> {
        replace(&self.file(name), bytes).map_err(|error| self.failed(name, error))
    }

    async fn cache(&self, name: &str, bytes: Option<&[u8]>) {
        let path = self.file(name);
        let kept = match bytes {
            Some(bytes) => private_dir(path.parent().unwrap_or(&self.root)).and_then(|()| put(&path, bytes)),
            None => fs::remove_file(&path),
        };
        if let Err(error) = kept {
            tracing::warn!("the view is not kept: {}: {error}", path.display());
        }
    }

    async fn set_aside(&self, name: &str) -> Result<String, DiskFailed> {
        let free = (1..).map(|n| format!("{name}.corrupt-{n}")).find(|aside| !self.file(aside).exists());
        let aside = free.expect("numbers do not end");
        let rename = fs::rename(self.file(name), self.file(&aside)).and_then(|()| sync_dir(&self.root));
        rename.map(|()| aside).map_err(|error| self.failed(name, error))
    }
}

/// Another process holds the lock; the text is what it wrote about itself.
#[derive(Debug)]
pub struct Held(pub String);

/// An advisory lock that the kernel frees when the last copy of its file is closed. It is never unlocked explicitly:
/// a copy handed to a hook's shim must keep it (dependencies T6).
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock without waiting, and writes `holder` into it for whoever is refused.
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

    /// A copy to be inherited by a process: the lock is held until both are closed.
    pub fn copy(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}
