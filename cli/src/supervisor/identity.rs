//! The identity of a data folder: detects a copy, so that it never acts as its original.
//!
//! A data folder contains process IDs, a port and tokens, and `cp -a` copies these. `identity.yaml` therefore records
//! the device, the inode and the birth time of the folder itself, which a copy does not have. The birth time is
//! necessary because a file system reuses the inode of a deleted folder.
//!
//! * The recorded inode and birth time, and the recorded device or path: the same folder, possibly moved (`mv`), or
//!   after a reboot that renumbered devices.
//! * Another inode, and the recorded folder exists: a copy, refused; `up --new-identity` makes it a system of its own.
//! * Another inode, and the recorded folder does not exist: a copy, or the original restored from a backup, refused;
//!   `up --moved` continues the original.
//!
//! Every command checks this first. Called by `commands`; [`super::renewal`] changes a copy.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::{lock, renewal};
use api::data_folder::{CREATED_FIRST, FURTHER_CONTROLLER, MARKS};
use api::text::data_folder as text;
use host::file::{ignore_not_found, write_atomic};
use host::foreign_files;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The content of `identity.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    device: u64,
    inode: u64,
    /// When the folder was created, in nanoseconds since 1970. `None` if its file system does not record that.
    #[serde(default)]
    created_ns: Option<u64>,
    /// Where the folder was when it was used last.
    path: PathBuf,
}

impl FolderIdentity {
    /// The identity of an existing folder.
    fn of(folder: &Path) -> io::Result<FolderIdentity> {
        let found = folder.metadata()?;
        let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_ns = created.and_then(|age| u64::try_from(age.as_nanos()).ok());
        Ok(FolderIdentity {
            device: found.dev(),
            inode: found.ino(),
            created_ns,
            path: folder.canonicalize()?,
        })
    }

    /// Whether both are the same folder. A file system may get another device number at each boot, and a copy on
    /// another file system may have the same inode number: one of device and path must be the same, too.
    fn is_same_folder(&self, other: &FolderIdentity) -> bool {
        (self.inode, self.created_ns) == (other.inode, other.created_ns)
            && (self.device == other.device || self.path == other.path)
    }

    fn read(dir: &DataDir) -> io::Result<Option<FolderIdentity>> {
        let damaged =
            |error: charms::yaml::YamlError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let text = ignore_not_found(std::fs::read_to_string(dir.identity()))?;
        text.map(|text| charms::yaml::from_str(&text)).transpose().map_err(damaged)
    }

    fn write(&self, dir: &DataDir) -> io::Result<()> {
        write_atomic(&dir.identity(), charms::yaml::to_string(self).map_err(io::Error::other)?.as_bytes())
    }
}

/// What an operator states about a copy (`up`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPurpose {
    /// Nothing: a copy is refused.
    Unknown,
    /// It is a system of its own: `--new-identity`.
    NewSystem,
    /// It continues the original, which does not exist any more: `--moved`.
    Moved,
}

/// What a data folder is.
#[derive(Debug, PartialEq, Eq)]
enum FolderOrigin {
    /// There is no folder, or no identity is recorded in it.
    New,
    /// The recorded folder, at this path.
    Own(FolderIdentity),
    /// A copy of the folder at this path.
    Copy { original: PathBuf, exists: bool },
}

fn folder_origin(dir: &DataDir) -> io::Result<FolderOrigin> {
    let Some(actual) = ignore_not_found(FolderIdentity::of(dir.path()))? else {
        return Ok(FolderOrigin::New);
    };
    let Some(recorded) = FolderIdentity::read(dir)? else { return Ok(FolderOrigin::New) };
    if recorded.is_same_folder(&actual) {
        return Ok(FolderOrigin::Own(actual));
    }
    let at_recorded_path = FolderIdentity::of(&recorded.path);
    let exists = at_recorded_path.is_ok_and(|found| recorded.is_same_folder(&found));
    Ok(FolderOrigin::Copy { original: recorded.path, exists })
}

fn unusable(dir: &DataDir, error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot use {}: {error}", dir.identity().display())).hint(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "use the data folder as the user who started it, or another one: --data DIR"
        }
        _ => "if this folder is no copy of another one, delete the file: the next command writes it again",
    })
}

/// Whether this folder was moved since its path was recorded. A folder that is visible at two paths (a bind mount) was
/// not: what was started at the recorded path continues. A link at the recorded path does not count, because processes
/// may have ended before it was created.
pub fn was_moved(dir: &DataDir) -> bool {
    let Ok(Some(recorded)) = FolderIdentity::read(dir) else { return false };
    let Ok(FolderOrigin::Own(own)) = folder_origin(dir) else { return false };
    let is_still_there = |found: FolderIdentity| found.path == recorded.path && found.is_same_folder(&own);
    own.path != recorded.path && !FolderIdentity::of(&recorded.path).is_ok_and(is_still_there)
}

/// Records the identity of the original. On a disk that is full or read-only, the folder is still found by its inode.
fn record(dir: &DataDir, identity: &FolderIdentity) {
    let is_recorded = FolderIdentity::read(dir).is_ok_and(|known| known.as_ref() == Some(identity));
    if !is_recorded && let Err(error) = identity.write(dir) {
        eprintln!("warning: cannot write {}: {error}", dir.identity().display());
    }
}

/// Refuses a copy. Records the device of a folder after a reboot, and a new path unless a supervisor still runs: a command
/// between the move and [`establish`] must not hide the move ([`was_moved`]):
/// 1. A folder is moved while its system runs: the supervisor ends within seconds.
/// 2. A command in the moved folder records the new path.
/// 3. `up` does not wait for the end of the supervisor, but for the controller that it stops.
///
/// # Errors
/// If the folder is a copy.
pub fn check(dir: &DataDir) -> Result<(), CommandError> {
    match folder_origin(dir).map_err(|error| unusable(dir, &error))? {
        FolderOrigin::New => Ok(()),
        FolderOrigin::Own(identity) => {
            let is_same_path =
                matches!(FolderIdentity::read(dir), Ok(Some(known)) if known.path == identity.path);
            if is_same_path || lock::holder(dir).is_none() {
                record(dir, &identity);
            }
            Ok(())
        }
        FolderOrigin::Copy { original, exists } => Err(refusal(dir, &original, exists)),
    }
}

/// As [`check`], for the command that stops what runs. It may also act on a folder that has replaced the original at its
/// path: what has locked files at this path is what the original has started. The pid files are deleted, since they are
/// those of a copy: if the original was moved, they would name processes of the original, which must continue.
///
/// # Errors
/// If the folder is another copy, or a pid file cannot be deleted.
pub fn check_for_stop(dir: &DataDir) -> Result<(), CommandError> {
    match folder_origin(dir).map_err(|error| unusable(dir, &error))? {
        FolderOrigin::Copy { original, exists: false } if is_at(dir, &original) => {
            renewal::forget_processes(dir).map_err(|error| unusable(dir, &error))
        }
        _ => check(dir),
    }
}

/// Whether this folder is where its original was.
fn is_at(dir: &DataDir, original: &Path) -> bool {
    dir.path().canonicalize().is_ok_and(|path| path == original)
}

/// Refuses a folder in which something else has files, such as a home or a checkout, for `up` before it creates any. A new
/// folder, one in which an `up` was interrupted, and what is left of a data folder are accepted.
///
/// # Errors
/// If the folder has other files, or cannot be read.
pub fn require_no_foreign_files(dir: &DataDir) -> Result<(), CommandError> {
    // another program may have a file of this name
    if matches!(FolderIdentity::read(dir), Ok(Some(_))) {
        return Ok(());
    }
    let folder = dir.path();
    let cannot_use =
        |why: String| CommandError::new(format!("cannot use {} as data folder: {why}", folder.display()));
    match foreign_files::find(folder, MARKS, CREATED_FIRST) {
        Ok(files) if files.is_empty() => Ok(()),
        Ok(files) => Err(cannot_use(text::foreign_files(&files)).hint(text::other_folder(folder))),
        // whose folder it is, is verified next
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(cannot_use(error.to_string())),
    }
}

/// Refuses the folder of a further controller for `up`, which would start the machines of the system a second time.
///
/// # Errors
/// If the folder has the mark of `pintle-controller add-controller`.
fn require_machines(dir: &DataDir) -> Result<(), CommandError> {
    let mark = dir.path().join(FURTHER_CONTROLLER);
    if !mark.exists() {
        return Ok(());
    }
    let folder = dir.path().display();
    let why = format!("{folder} is that of a further controller, and the machines run on another host");
    Err(CommandError::new(format!("cannot start its machines: {why}")).hint(format!(
        "start the controller alone: pintle-controller --data {folder} --listen ADDRESS:PORT; \
         if the other host is gone, delete {}",
        mark.display()
    )))
}

/// Checks the folder for `up` and records its identity, and the new path of a folder that was moved. A copy is accepted
/// only with a purpose.
///
/// # Errors
/// If the folder is a copy and no purpose is given, or that of a further controller, or a file cannot be written.
pub fn establish(dir: &DataDir, purpose: CopyPurpose) -> Result<(), CommandError> {
    require_machines(dir)?;
    let to_error = |error: io::Error| unusable(dir, &error);
    match (folder_origin(dir).map_err(to_error)?, purpose) {
        (FolderOrigin::Copy { .. }, CopyPurpose::Unknown) => check(dir),
        (FolderOrigin::Own(identity), CopyPurpose::Unknown | CopyPurpose::Moved) => {
            record(dir, &identity);
            Ok(())
        }
        (FolderOrigin::New | FolderOrigin::Own(_), CopyPurpose::NewSystem) => {
            let text = format!("cannot give {} a new identity: it is not a copy", dir.path().display());
            Err(CommandError::new(text))
        }
        (FolderOrigin::Copy { original, exists: true }, CopyPurpose::Moved) => {
            let (name, original) = (dir.path().display(), original.display());
            let text = format!("cannot continue {original} in {name}: the original still exists");
            let or = if renewal::require_renewable(dir).is_ok() { "; or use --new-identity" } else { "" };
            let hint =
                format!("to replace the original: pintle --data {original} down, then remove {original}{or}");
            Err(CommandError::new(text).hint(hint))
        }
        (FolderOrigin::Copy { original, .. }, CopyPurpose::Moved) => {
            require_ended(dir, &original)?;
            renewal::forget_processes(dir).map_err(to_error)?;
            renewal::start_store_generation(dir).map_err(to_error)?;
            FolderIdentity::of(dir.path()).and_then(|identity| identity.write(dir)).map_err(to_error)
        }
        (FolderOrigin::Copy { .. }, CopyPurpose::NewSystem) => {
            renewal::require_renewable(dir)?;
            renewal::forget_processes(dir).map_err(to_error)?;
            for damaged in renewal::renew_secrets(dir).map_err(to_error)? {
                eprintln!(
                    "warning: {} is damaged: its agent keeps its old identity and cannot start",
                    damaged.display()
                );
            }
            renewal::start_store_generation(dir).map_err(to_error)?;
            // last: a renewal that was interrupted is repeated
            FolderIdentity::of(dir.path()).and_then(|identity| identity.write(dir)).map_err(to_error)
        }
        (FolderOrigin::New, CopyPurpose::Unknown | CopyPurpose::Moved) => {
            FolderIdentity::of(dir.path()).and_then(|identity| identity.write(dir)).map_err(to_error)
        }
    }
}

/// Refuses to continue an original while its processes run, because it was then moved and still exists.
fn require_ended(dir: &DataDir, original: &Path) -> Result<(), CommandError> {
    let Some(process) = renewal::processes(dir).into_iter().next() else { return Ok(()) };
    let is_replaced = is_at(dir, original);
    let (name, original) = (dir.path().display(), original.display());
    let text = format!("cannot continue {original} in {name}: process {} of the original runs", process.pid);
    Err(CommandError::new(text).hint(match is_replaced {
        true => format!("stop it first: pintle --data {name} down"),
        false => "stop it first (if the original was moved: pintle --data DIR down)".to_owned(),
    }))
}

fn refusal(dir: &DataDir, original: &Path, exists: bool) -> CommandError {
    let is_replaced = is_at(dir, original);
    let (name, original) = (dir.path().display(), original.display());
    // a copy that cannot become another system is not told how
    let new_identity = match renewal::require_renewable(dir) {
        Ok(()) => format!("; to make it a system of its own: pintle --data {name} up --new-identity"),
        Err(_) => String::new(),
    };
    if exists {
        let text = format!("cannot use {name}: it is a copy of {original}");
        let hint = format!("to use the original: pintle --data {original}{new_identity}");
        return CommandError::new(text).hint(hint);
    }
    let text = match is_replaced {
        true => format!("cannot use {name}: it is a copy, as a restored backup is; the original is gone"),
        false => format!("cannot use {name}: it is a copy of {original}, which no longer exists there"),
    };
    CommandError::new(text).hint(format!(
        "if the original is gone and this folder replaces it: pintle --data {name} up --moved{new_identity}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::process::Process;
    use std::process::Command;

    fn identity(device: u64, inode: u64, path: &str) -> FolderIdentity {
        FolderIdentity { device, inode, created_ns: Some(1), path: path.into() }
    }

    #[test]
    fn a_folder_is_the_same_after_a_move_or_a_reboot_and_a_copy_is_not() {
        let recorded = identity(1, 2, "/d");
        for (same, actual) in [
            (true, identity(1, 2, "/d")),
            (true, identity(1, 2, "/moved")),
            (true, identity(9, 2, "/d")),
            (false, identity(1, 3, "/d")),
            // a new folder, with the inode of the deleted one
            (false, FolderIdentity { created_ns: Some(2), ..identity(1, 2, "/d") }),
            (false, identity(1, 3, "/copy")),
            (false, identity(9, 2, "/copy")),
        ] {
            assert_eq!(recorded.is_same_folder(&actual), same, "{actual:?}");
        }
    }

    #[test]
    fn the_identity_of_a_folder_of_another_user_is_not_to_be_deleted() {
        let dir = DataDir::choose(Some(Path::new("/of/another"))).expect("a path");
        let hint = |kind| unusable(&dir, &io::Error::from(kind)).hint.expect("there is one");
        let is_remedy = |kind| hint(kind).contains("delete");
        assert!(is_remedy(io::ErrorKind::InvalidData) && !is_remedy(io::ErrorKind::PermissionDenied));
    }

    /// Data folders of which a person has deleted files are in `tests/tests/copies.rs`.
    #[test]
    fn a_folder_of_something_else_is_refused_and_one_of_an_interrupted_start_is_not() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("d"))).expect("a path");
        require_no_foreign_files(&dir).expect("it does not exist");
        dir.create().expect("made");
        require_no_foreign_files(&dir).expect("the start was interrupted");
        std::fs::write(dir.identity(), "of another program").expect("written");
        std::fs::write(dir.path().join("notes.txt"), "").expect("written");
        let refused = require_no_foreign_files(&dir).expect_err("a file of something else");
        assert!(refused.message.contains("notes.txt"), "{refused:?}");
        establish(&dir, CopyPurpose::Unknown).expect_err("it is not an identity");
        std::fs::remove_file(dir.identity()).expect("it exists");
        establish(&dir, CopyPurpose::Unknown).expect("new");
        require_no_foreign_files(&dir).expect("a data folder may have other files");
    }

    #[test]
    fn the_folder_of_a_further_controller_is_refused_until_its_mark_is_deleted() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("d"))).expect("a path");
        let mark = dir.path().join(FURTHER_CONTROLLER);
        std::fs::create_dir_all(mark.parent().expect("a folder")).expect("made");
        std::fs::write(&mark, "").expect("written");
        let refused = establish(&dir, CopyPurpose::Unknown).expect_err("its machines run elsewhere");
        assert!(refused.hint.expect("what to do").contains(&mark.display().to_string()));
        std::fs::remove_file(&mark).expect("it exists");
        establish(&dir, CopyPurpose::Unknown).expect("a person has decided it");
    }

    #[test]
    fn a_copy_is_refused_until_its_purpose_is_stated() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir_of = |name: &str| DataDir::choose(Some(&outer.path().join(name))).expect("a path");
        let (original, copy) = (dir_of("d"), dir_of("d2"));
        original.create().expect("made");
        establish(&original, CopyPurpose::Unknown).expect("new");
        let copied = Command::new("cp").arg("-a").arg(original.path()).arg(copy.path()).status();
        assert!(copied.expect("cp").success());
        check(&original).expect("the original");
        let path = original.path().canonicalize().expect("it exists");
        let refused = |purpose| establish(&copy, purpose).expect_err("a copy").message;
        let is_copy_of = |path: &Path, exists| FolderOrigin::Copy { original: path.to_path_buf(), exists };
        assert_eq!(folder_origin(&copy).expect("readable"), is_copy_of(&path, true));
        assert!(refused(CopyPurpose::Unknown).ends_with(&path.display().to_string()));
        refused(CopyPurpose::Moved);
        assert_eq!(check(&copy).expect_err("a copy").message, refused(CopyPurpose::Unknown));

        // the original is moved and keeps working; the copy cannot know where it is
        let moved = dir_of("d3");
        std::fs::rename(original.path(), moved.path()).expect("moved");
        let held = lock::acquire(&moved).expect("free");
        check(&moved).expect("the same folder");
        assert!(was_moved(&moved), "only up records the new path while a supervisor runs");
        std::os::unix::fs::symlink(moved.path(), original.path()).expect("made");
        assert!(was_moved(&moved), "a link is in its place");
        std::fs::remove_file(original.path()).expect("it exists");
        establish(&moved, CopyPurpose::Unknown).expect("the same folder");
        assert!(!was_moved(&moved), "the new path is recorded");
        drop(held);
        let again = dir_of("d4");
        std::fs::rename(moved.path(), again.path()).expect("moved again");
        check(&again).expect("the same folder");
        assert!(!was_moved(&again), "nothing runs: the path is recorded at once");
        assert_eq!(folder_origin(&copy).expect("readable"), is_copy_of(&path, false));
        refused(CopyPurpose::Unknown);
        Process::current().write(&copy.supervisor_lock()).expect("a process of the original");
        assert!(refused(CopyPurpose::Moved).contains(&format!("process {} ", std::process::id())));
        std::fs::remove_file(copy.supervisor_lock()).expect("it has ended");
        establish(&copy, CopyPurpose::Moved).expect("it replaces the original");
        check(&copy).expect("it is its own folder now");
        assert!(establish(&copy, CopyPurpose::NewSystem).is_err(), "it is no copy any more");
    }
}
