//! The folder of one unit on disk: the names of what is in it, and the file operations of the journal.
//!
//! Files are replaced as a whole ([`host::file`]). The journal's file is appended to, and synced.

use crate::journal::Files;
use crate::ports::DiskError;
use host::file::{ignore_not_found, sync_folder, write_atomic, write_atomic_unsynced};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
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

impl Folder {
    fn failed(&self, name: &str, error: io::Error) -> DiskError {
        DiskError(format!("{}: {error}", self.file(name).display()))
    }
}

impl Files for Folder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        ignore_not_found(fs::read(self.file(name))).map_err(|error| self.failed(name, error))
    }

    async fn append(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let append = || {
            let mut file = OpenOptions::new().append(true).mode(0o600).create(true).open(self.file(name))?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        append().map_err(|error| self.failed(name, error))
    }

    async fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        write_atomic(&self.file(name), bytes).map_err(|error| self.failed(name, error))
    }

    async fn cache(&self, name: &str, bytes: Option<&[u8]>) {
        let path = self.file(name);
        let kept = match bytes {
            Some(bytes) => private_dir(path.parent().unwrap_or(&self.root))
                .and_then(|()| write_atomic_unsynced(&path, bytes)),
            None => fs::remove_file(&path),
        };
        if let Err(error) = kept {
            tracing::warn!("the view is not kept: {}: {error}", path.display());
        }
    }

    async fn set_aside(&self, name: &str) -> Result<String, DiskError> {
        let free = (1..).map(|n| format!("{name}.corrupt-{n}")).find(|aside| !self.file(aside).exists());
        let aside = free.expect("numbers do not end");
        let rename = fs::rename(self.file(name), self.file(&aside)).and_then(|()| sync_folder(&self.root));
        rename.map(|()| aside).map_err(|error| self.failed(name, error))
    }
}
