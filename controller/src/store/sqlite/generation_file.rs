//! The file `generation.yaml` beside a database, and what identifies a file among its copies.
//!
//! The file records the store generation of the database and a revision that it has reached, so that a database that is
//! older, of another generation or copied into its folder is recognised and never continued as if nothing was lost
//! (design 8). `open` reads it to decide, and creates it anew at each start; `writer` notes each commit in it.

use crate::store::Position;
use serde::Deserialize;
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The file `generation.yaml`: the store generation, a revision that it has reached, and the identity of the file.
///
/// The revision is synced only when the file is created, and written after each commit: if the file lags behind, it may
/// fail to detect an older copy, but it never reports one falsely. A backup that is copied into the folder contains an
/// older file together with the older database:
///
/// 1. The data folder is backed up, the controller starts again and commits.
/// 2. `cp -a backup/. DIR`: the folder keeps its identity, and database and `generation.yaml` agree.
/// 3. Continued as the same generation, the store would give the numbers of lost revisions to other commits, and agents
///    would apply deltas to a view of the lost ones.
///
/// The file is therefore created anew at each start and at each orderly end, and records its own inode and birth time,
/// which a copy does not have. One case is not recognised: a backup that was made since the last start, copied over the
/// files after a crash, keeps inode and birth time.
pub struct GenerationFile {
    folder: PathBuf,
    file: File,
    store_generation: Uuid,
    identity: FileIdentity,
}

/// What distinguishes a file from its copies and from the file that it replaced.
#[derive(Clone, Copy, Deserialize)]
struct FileIdentity {
    inode: u64,
    /// When the file was created, in nanoseconds since 1970; 0 if its file system does not record that. Necessary
    /// because a file system reuses the inode of a deleted file.
    created_ns: u64,
}

impl FileIdentity {
    /// Whether both are of one file. A kernel that is upgraded may begin to report birth times.
    fn is_same(self, other: FileIdentity) -> bool {
        let is_known = self.created_ns != 0 && other.created_ns != 0;
        self.inode == other.inode && (!is_known || self.created_ns == other.created_ns)
    }

    fn of(file: &Metadata) -> FileIdentity {
        let age = file.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_ns = age.and_then(|age| u64::try_from(age.as_nanos()).ok()).unwrap_or(0);
        FileIdentity { inode: file.ino(), created_ns }
    }
}

/// The file of the open database, to notice that its name has another file or none: commits would reach nobody.
pub(super) struct DatabaseFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl DatabaseFile {
    pub(super) fn of(path: &Path) -> std::io::Result<DatabaseFile> {
        Ok(DatabaseFile { path: path.to_owned(), identity: FileIdentity::of(&path.metadata()?) })
    }

    /// Whether the file was deleted or replaced since it was opened.
    pub(super) fn is_replaced(&self) -> bool {
        match self.path.metadata() {
            Ok(found) => !self.identity.is_same(FileIdentity::of(&found)),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

impl GenerationFile {
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join("generation.yaml")
    }

    /// Reads the file that the previous process left; none if it is absent or unreadable.
    pub fn load(folder: &Path) -> Option<Position> {
        let text = std::fs::read_to_string(GenerationFile::path(folder)).ok()?;
        charms::yaml::from_str(&text).ok()
    }

    /// Records that a new store generation replaces the recorded one, before the database has it: a process that dies
    /// between the two must not leave a database that looks like one of another folder.
    pub(super) fn record_start(folder: &Path, new: Uuid) -> std::io::Result<()> {
        let path = GenerationFile::path(folder);
        let recorded = std::fs::read_to_string(&path)?;
        let kept = recorded.lines().filter(|line| !line.starts_with("starting:"));
        let text: String =
            kept.map(|line| format!("{line}\n")).chain([format!("starting: {new}\n")]).collect();
        host::file::write_atomic(&path, text.as_bytes())
    }

    /// The new store generation that replaces the recorded one.
    pub(super) fn starting(folder: &Path) -> Option<Uuid> {
        #[derive(Deserialize)]
        struct Recorded {
            starting: Option<Uuid>,
        }
        let text = std::fs::read_to_string(GenerationFile::path(folder)).ok()?;
        charms::yaml::from_str::<Recorded>(&text).ok()?.starting
    }

    /// Whether the file is not the one that a controller has created in this folder.
    pub(super) fn is_copied(folder: &Path) -> bool {
        let path = GenerationFile::path(folder);
        let recorded =
            std::fs::read_to_string(&path).ok().and_then(|text| charms::yaml::from_str(&text).ok());
        let actual = path.metadata().ok().map(|file| FileIdentity::of(&file));
        recorded.is_some_and(|recorded: FileIdentity| !actual.is_some_and(|actual| recorded.is_same(actual)))
    }

    /// Replaces the file atomically and syncs the folder, which also makes the database's directory entry durable.
    pub(super) fn create(
        folder: &Path,
        store_generation: Uuid,
        revision: Revision,
    ) -> std::io::Result<GenerationFile> {
        let path = GenerationFile::path(folder);
        let content = |file: &Metadata| text(store_generation, revision, FileIdentity::of(file)).into_bytes();
        host::file::write_atomic_with(&path, content)?;
        let file = OpenOptions::new().write(true).open(path)?;
        let identity = FileIdentity::of(&file.metadata()?);
        Ok(GenerationFile { folder: folder.to_owned(), file, store_generation, identity })
    }

    /// Records a revision. The file is overwritten in place, since its text always has the same length.
    pub(super) fn record(&self, revision: Revision) -> std::io::Result<()> {
        self.file.write_all_at(text(self.store_generation, revision, self.identity).as_bytes(), 0)
    }

    /// Replaces the file at the end, so that a backup that was made while the controller ran is recognised, too.
    pub(super) fn close(&self, revision: Revision) -> std::io::Result<()> {
        GenerationFile::create(&self.folder, self.store_generation, revision).map(drop)
    }
}

fn text(generation: Uuid, revision: Revision, FileIdentity { inode, created_ns }: FileIdentity) -> String {
    format!(
        "# A database with an older revision than this is an older copy, which the controller refuses. A copy of this\n\
         # file is recognised by its inode and birth time.\n\
         store_generation: {generation}\nrevision: {revision:<20}\ninode: {inode:<20}\ncreated_ns: {created_ns:<20}\n"
    )
}
