//! The folders of all runs of a unit: the creation of new ones, and the deletion of old ones.
//!
//! A unit keeps some hundred folders, whose list would cost each hook more than its own folder: they are listed at the first
//! run of this process only.
//!
//! Each folder is measured when the run after its own has started, and all folders when the second run of this process
//! has started, so that each later hook costs the measurement of one folder. The core decides which folders are deleted
//! (`state::unit::run_retention`). A file marks the folder of a hook that failed, so that it is kept
//! while it explains the error of the unit.

use crate::folder::{self, UnitFolder};
use host::file::{disk_bytes, with_path};
use state::unit::local::Run;
use state::unit::run_retention::{RunFolder, expired};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that marks the run of a failed hook.
const FAILED: &str = "failed";

/// The run folders of a unit.
#[derive(Default)]
pub(super) struct RunFolders {
    /// A number above which no run has a folder; none until the folders were listed.
    newest: Cell<Option<u64>>,
    /// None until the first measurement.
    measured: RefCell<Option<MeasuredFolders>>,
}

/// The sizes and the names of run folders, by the number of the run.
#[derive(Default)]
struct MeasuredFolders {
    sizes: BTreeMap<u64, RunFolder>,
    names: BTreeMap<u64, OsString>,
}

impl MeasuredFolders {
    fn measure(&mut self, number: u64, path: &Path) {
        self.sizes.insert(number, measure(path));
        self.names.insert(number, path.file_name().unwrap_or_default().to_owned());
    }
}

impl RunFolders {
    /// Creates the folder of a run that starts. If a folder of the same number exists, the start of its run was never stored,
    /// and it is deleted.
    pub(super) fn create(&self, folder: &UnitFolder, run: &Run) -> io::Result<PathBuf> {
        let path = folder.new_run(run);
        // unknown again if anything fails
        let newest = self.newest.take().unwrap_or_else(|| newest(folder));
        if run.number <= newest {
            host::tree::remove(&folder.run(run.number)).map_err(with_path(&path))?;
        }
        make(&path).map_err(with_path(&path))?;
        self.newest.set(Some(newest.max(run.number)));
        Ok(path)
    }

    /// Deletes the folders that have expired now that the runs `finished`, by their folders, have finished and run `current`
    /// has started.
    pub(super) fn delete_expired(&self, folder: &UnitFolder, finished: &[(u64, PathBuf)], current: u64) {
        if finished.is_empty() {
            return;
        }
        let mut measured = self.measured.borrow_mut();
        let runs = measured.get_or_insert_with(|| measure_all(folder));
        finished.iter().for_each(|(number, path)| runs.measure(*number, path));
        for old in expired(&runs.sizes, current) {
            // a folder that cannot be deleted now is deleted with the next run
            let name = runs.names.get(&old).expect("it was measured");
            if host::tree::remove(&folder.runs().join(name)).is_ok() {
                runs.sizes.remove(&old);
                runs.names.remove(&old);
            }
        }
    }
}

/// Makes the folder of a run.
fn make(run_folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(run_folder) {
        // a person may have deleted all runs
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            run_folder.parent().map_or(Ok(()), folder::private_dir)?;
            folder::private_dir(run_folder)
        }
        made => made,
    }
}

fn newest(folder: &UnitFolder) -> u64 {
    folder.kept_runs().last().map_or(0, |(number, _)| *number)
}

/// Marks the run of a failed hook. Without the mark, which a full disk prevents, its folder may be deleted earlier.
pub(super) fn mark_failed(run_folder: &Path) {
    fs::write(run_folder.join(FAILED), "").ok();
}

fn measure_all(folder: &UnitFolder) -> MeasuredFolders {
    let mut all = MeasuredFolders::default();
    folder.kept_runs().iter().for_each(|(number, path)| all.measure(*number, path));
    all
}

/// A run folder contains files only.
fn measure(run_folder: &Path) -> RunFolder {
    let entries = fs::read_dir(run_folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok());
    let bytes = files.map(|file| disk_bytes(&file)).sum();
    RunFolder { bytes, has_failed: run_folder.join(FAILED).exists() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hook_client::shim;
    use state::terms::operation::{Hook, Operation};
    use state::terms::start_reason::StartReason;
    use state::unit::run_retention::RUN_BYTES_MAX;

    #[test]
    fn run_folders_are_bounded_in_bytes_and_the_last_failed_one_is_kept() {
        let data = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(data.path().to_owned());
        let write = |number: u64, bytes: u64, outcome: &str| {
            fs::create_dir_all(folder.run(number)).expect("it is created");
            let text = vec![b'x'; usize::try_from(bytes).expect("small")];
            fs::write(folder.run(number).join(shim::OUTPUT), text).expect("it is written");
            fs::write(folder.run(number).join(shim::OUTCOME), outcome).expect("it is written");
        };
        write(1, 10, "exit 0");
        write(2, 10, "exit 1");
        mark_failed(&folder.run(2));
        // an action, or a hook that was killed for its own reboot
        write(3, 10, "signal 9");
        for number in 4..=7 {
            write(number, RUN_BYTES_MAX / 4, "exit 0");
        }
        let left = || measure_all(&folder).sizes.into_keys().collect::<Vec<u64>>();
        let folders = RunFolders::default();
        write(8, 0, "signal 9");
        folders.delete_expired(&folder, &[(7, folder.run(7))], 8);
        assert_eq!(left(), [2, 5, 6, 7, 8]);
        write(8, RUN_BYTES_MAX / 4, "signal 9");
        mark_failed(&folder.run(8));
        write(9, 0, "exit 0");
        folders.delete_expired(&folder, &[(8, folder.run(8))], 9);
        assert_eq!(left(), [6, 7, 8, 9], "a newer run has failed");
        // the first deletion of this process measures the folder of the current run, too
        write(9, RUN_BYTES_MAX, "exit 0");
        RunFolders::default().delete_expired(&folder, &[(8, folder.run(8))], 9);
        assert_eq!(left(), [8, 9], "the folder of a run in progress is kept");
    }

    /// Runs 7 and 9 were about to start in an earlier process, as other operations. The list is made once: what another
    /// process creates later is not looked for.
    #[test]
    fn a_folder_of_an_earlier_process_is_replaced_by_that_of_the_run_of_its_number() {
        let data = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(data.path().to_owned());
        for name in ["000007-install", "000009-start"] {
            fs::create_dir_all(folder.runs().join(name)).expect("created");
        }
        let folders = RunFolders::default();
        let create = |number| {
            let run = Run::new(number, Operation::Hook(Hook::UpdateStatus), StartReason::Requested);
            folders.create(&folder, &run)
        };
        let kept = || -> Vec<PathBuf> { folder.kept_runs().into_iter().map(|(_, path)| path).collect() };
        for number in [7, 8, 9] {
            assert_eq!(create(number).expect("created"), folder.run(number));
        }
        let named = |number| folder.runs().join(format!("{number:06}-update-status"));
        assert_eq!(kept(), [7, 8, 9].map(named));
        fs::write(named(9).join("context.yaml"), "").expect("written");
        assert_eq!(create(9).expect("the start of run 9 was not stored"), named(9));
        assert!(!named(9).join("context.yaml").exists());
        fs::create_dir(folder.runs().join("000010-install")).expect("created");
        assert_eq!(create(10).expect("created"), named(10));
        assert_eq!(kept().len(), 5, "it is not looked for");
    }
}
