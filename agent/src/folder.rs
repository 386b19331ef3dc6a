//! The folder of one unit on disk: its paths, the folders of private and of public mode, and the file operations of the
//! journal and of the view cache ([`FolderFiles`]).
//!
//! The names of the other files in it are constants beside the code that writes them. Files are replaced as a whole
//! ([`host::file`]), except the journal, which is appended to and synced. Newlines follow its content as a reserve, so
//! that most syncs write a block that the file has already: a sync of a longer file would wait until the file system
//! has stored every other change as well.

use crate::fault;
use crate::folder_port::{CONTROLLER_ERROR, FolderFiles, SET_ASIDE, SET_ASIDE_KEPT};
use crate::ports::DiskError;
use api::machine_folder::{AGENTS_DIR, RUNS_DIR};
use host::file::{
    create_private_folder_in, exists, ignore_not_found, read_regular, sync_folder, write_atomic,
    write_atomic_unsynced,
};
use state::terms::operation::Operation;
use state::unit::local::Run;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The newlines that are reserved after the content of an appended file: space for 16 usual documents, the writes of
/// eight hooks.
const RESERVE_BYTES: usize = 8 << 10;

/// The length of the name of a run's operation in the name of its folder: with the number at most 69 characters, so that
/// a list of folders is readable.
const RUN_NAME_CHARS_MAX: usize = 48;

/// The largest file of the stored state or of the view that is read: more than a view of 137 MiB, the longest that an agent
/// receives, and its lines.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// The folder of a unit, `<data>/agents/unit-web-0`. It is displayed as `unit-web-0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFolder {
    root: PathBuf,
}

impl UnitFolder {
    /// The folder at this path.
    pub fn new(root: PathBuf) -> UnitFolder {
        UnitFolder { root }
    }
    /// The folder of the unit with this tag, in the folder of its machine.
    pub fn in_machine(machine: &Path, tag: &str) -> UnitFolder {
        UnitFolder::new(machine.join(AGENTS_DIR).join(tag))
    }
    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
    /// The folder of the charm.
    pub fn charm(&self) -> PathBuf {
        self.root.join("charm")
    }
    /// The machine's folder, two levels above.
    pub fn machine(&self) -> PathBuf {
        let up = self.root.parent().and_then(Path::parent);
        up.map_or_else(|| self.root.clone(), Path::to_path_buf)
    }
    /// The tag of the unit, such as `unit-web-0`.
    pub fn tag(&self) -> String {
        self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
    /// The folder of the links to the hook tools.
    pub fn tools(&self) -> PathBuf {
        self.machine().join("tools").join(self.tag())
    }
    /// The folder of the folders of its runs.
    pub fn runs(&self) -> PathBuf {
        self.root.join(RUNS_DIR)
    }
    /// The numbers and folders of its runs that are kept, in the order of the runs.
    pub fn kept_runs(&self) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(self.runs()).into_iter().flatten().flatten();
        let run = |entry: fs::DirEntry| Some((run_number(entry.file_name().to_str()?)?, entry.path()));
        let mut runs: Vec<_> = entries.filter_map(run).collect();
        runs.sort_unstable();
        runs
    }
    /// The folder of the run with this number, whatever follows the number in its name.
    pub fn run(&self, number: u64) -> PathBuf {
        let found = self.kept_runs().into_iter().find(|(found, _)| *found == number);
        found.map_or_else(|| self.runs().join(format!("{number:06}")), |(_, path)| path)
    }
    /// The folder of a run that has started, without a look at the others if it has the usual name.
    pub fn started_run(&self, run: &Run) -> PathBuf {
        let named = self.new_run(run);
        if named.is_dir() { named } else { self.run(run.number) }
    }
    /// The folder that a run creates, such as `hooks/000041-config-changed`.
    pub fn new_run(&self, run: &Run) -> PathBuf {
        self.runs().join(format!("{:06}-{}", run.number, operation_name(&run.operation)))
    }
}

/// The number in the name of the folder of a run, which alone identifies the run.
pub fn run_number(name: &str) -> Option<u64> {
    name.split_once('-').map_or(name, |(number, _)| number).parse().ok()
}

/// The name of an operation, for people, in the name of a folder: lower-case letters, digits and hyphens.
fn operation_name(operation: &Operation) -> String {
    let name = match operation {
        Operation::Hook(hook) => hook.name().to_string(),
        Operation::Action { name, .. } => format!("action-{name}"),
        Operation::Commands(_) => "commands".to_owned(),
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Resync
        | Operation::SetDead => "operation".to_owned(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().take(RUN_NAME_CHARS_MAX).map(plain).collect()
}

impl fmt::Display for UnitFolder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.tag())
    }
}

/// Creates a folder that only its user may enter. The folder above it must exist: nothing is created where a machine or a
/// data folder was that was moved.
///
/// # Errors
/// If the folder cannot be created, or something else or a folder of another user is there.
pub fn private_dir(path: &Path) -> io::Result<()> {
    dir_of_mode(path, 0o700)
}

/// Creates a folder that every user may enter, because a charm is in it or below it: services of a charm run as other
/// users. Its files are private, each by its own mode. The folder above it must exist, as for [`private_dir`].
///
/// # Errors
/// If the folder cannot be created, or something else or a folder of another user is there.
pub fn public_dir(path: &Path) -> io::Result<()> {
    dir_of_mode(path, 0o755)
}

fn dir_of_mode(path: &Path, mode: u32) -> io::Result<()> {
    if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
        create_private_folder_in(above, name)?;
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a folder of this user"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

impl UnitFolder {
    fn disk_error(&self, name: &str, error: io::Error) -> DiskError {
        let fault = error.raw_os_error().and_then(fault::of_errno);
        DiskError { text: format!("{}: {error}", self.file(name).display()), fault }
    }
}

impl FolderFiles for UnitFolder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        let read = ignore_not_found(read_regular(&self.file(name), FILE_BYTES_MAX));
        read.map(|found| found.map(|(bytes, _)| bytes)).map_err(|error| self.disk_error(name, error))
    }

    fn store_controller_error(&self, error: Option<&str>) {
        let file = self.file(CONTROLLER_ERROR);
        let stored = match error {
            Some(error) => write_atomic_unsynced(&file, format!("{error}\n").as_bytes()),
            None => ignore_not_found(fs::remove_file(&file)).map(drop),
        };
        // The log has each error of the controller, too, and a full disk is reported by what must be written.
        stored.ok();
    }

    async fn append(&self, name: &str, length: usize, bytes: &[u8]) -> Result<(), DiskError> {
        let append = || {
            let mut options = OpenOptions::new();
            // a pipe in its place, which no one reads, is not waited for
            options.write(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
            let file = options.open(self.file(name))?;
            let mut bytes = bytes.to_vec();
            if !bytes.is_empty() && file.metadata()?.len() < (length + bytes.len()) as u64 {
                bytes.resize(bytes.len() + RESERVE_BYTES, b'\n');
            }
            file.write_all_at(&bytes, length as u64)?;
            file.sync_data()
        };
        append().map_err(|error| self.disk_error(name, error))
    }

    async fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        write_atomic(&self.file(name), bytes).map_err(|error| self.disk_error(name, error))
    }

    async fn cache(&self, name: &str, bytes: Option<&[u8]>) -> bool {
        let path = self.file(name);
        let written = match bytes {
            Some(bytes) => name
                .split_once('/')
                .map_or(Ok(()), |(folder, _)| create_private_folder_in(&self.root, OsStr::new(folder)))
                .and_then(|()| write_atomic_unsynced(&path, bytes)),
            None => ignore_not_found(fs::remove_file(&path)).map(drop),
        };
        if let Err(error) = &written {
            tracing::warn!("cannot cache the view: {}: {error}", path.display());
        }
        written.is_ok()
    }

    async fn set_aside(&self, name: &str) -> Result<String, DiskError> {
        let numbered = |n: u32| format!("{name}{SET_ASIDE}{n}");
        let unused = (1..SET_ASIDE_KEPT)
            .map(numbered)
            .find(|new_name| exists(&self.file(new_name)).is_ok_and(|exists| !exists));
        let new_name = unused.unwrap_or_else(|| numbered(SET_ASIDE_KEPT));
        let rename = fs::rename(self.file(name), self.file(&new_name)).and_then(|()| sync_folder(&self.root));
        rename.map(|()| new_name).map_err(|error| self.disk_error(name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_its_number_whatever_its_operation() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().join("unit-web-0"));
        let action = Operation::Action { id: 7, name: format!("Back_up.{}", "x".repeat(100)) };
        let run = Run::new(41, action, state::terms::start_reason::StartReason::Requested);
        let named = folder.new_run(&run);
        let name = named.file_name().and_then(|name| name.to_str()).expect("text");
        assert!(name.starts_with("000041-action-back-up-xxx"), "{name}");
        assert_eq!(name.len(), "000041-".len() + RUN_NAME_CHARS_MAX);
        fs::create_dir_all(&named).expect("created");
        private_dir(&folder.runs().join("000410-install")).expect("created");
        private_dir(&folder.runs().join("notes")).expect("created");
        assert_eq!(folder.run(41), named);
        assert_eq!(folder.run(4), folder.runs().join("000004"), "there is none");
        let numbers: Vec<u64> = folder.kept_runs().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [41, 410]);
    }

    #[tokio::test]
    async fn the_first_damaged_files_and_the_newest_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().join("unit-web-0"));
        private_dir(folder.root()).expect("created");
        for number in 1..=20 {
            fs::write(folder.file("journal.yaml"), number.to_string()).expect("written");
            folder.set_aside("journal.yaml").await.expect("renamed");
        }
        let kept = (1..=20)
            .filter_map(|n| fs::read_to_string(folder.file(&format!("journal.yaml.corrupt-{n}"))).ok());
        assert_eq!(kept.collect::<Vec<_>>(), ["1", "2", "3", "4", "5", "6", "7", "20"]);
    }
}
