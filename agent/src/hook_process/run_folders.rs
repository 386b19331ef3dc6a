//! The folders of all runs of a unit, and the deletion of old ones.
//!
//! Each folder is measured when the run after its own has started, and all folders when the second run of this process
//! has started, so that each later hook costs the measurement of one folder. The core decides which folders are deleted
//! (`state::unit::run_retention`). A file marks the folder of a hook that failed, so that it is kept
//! while it explains the error of the unit.

use crate::folder::UnitFolder;
use host::file::disk_bytes;
use state::unit::run_retention::{RunFolder, expired};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The file that marks the run of a failed hook.
const FAILED: &str = "failed";

/// The measured run folders of a unit, by the number of the run. None until the first measurement.
#[derive(Default)]
pub(super) struct RunFolders(RefCell<Option<BTreeMap<u64, RunFolder>>>);

impl RunFolders {
    /// Deletes the folders that have expired now that the runs `finished` have finished and run `current` has started.
    pub(super) fn delete_expired(&self, folder: &UnitFolder, finished: &[u64], current: u64) {
        if finished.is_empty() {
            return;
        }
        let mut measured = self.0.borrow_mut();
        let runs = measured.get_or_insert_with(|| measure_all(folder));
        runs.extend(finished.iter().map(|number| (*number, measure(&folder.run(*number)))));
        for old in expired(runs, current) {
            // a folder that cannot be deleted now is deleted with the next run
            let path = folder.run(old);
            if host::tree::remove(&path).is_ok() {
                runs.remove(&old);
            }
        }
    }
}

/// Marks the run of a failed hook. Without the mark, which a full disk prevents, its folder may be deleted earlier.
pub(super) fn mark_failed(run_folder: &Path) {
    fs::write(run_folder.join(FAILED), "").ok();
}

fn measure_all(folder: &UnitFolder) -> BTreeMap<u64, RunFolder> {
    folder.kept_runs().into_iter().map(|(number, path)| (number, measure(&path))).collect()
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
        let left = || {
            let mut left: Vec<u64> = measure_all(&folder).into_keys().collect();
            left.sort_unstable();
            left
        };
        let folders = RunFolders::default();
        write(8, 0, "signal 9");
        folders.delete_expired(&folder, &[7], 8);
        assert_eq!(left(), [2, 5, 6, 7, 8]);
        write(8, RUN_BYTES_MAX / 4, "signal 9");
        mark_failed(&folder.run(8));
        write(9, 0, "exit 0");
        folders.delete_expired(&folder, &[8], 9);
        assert_eq!(left(), [6, 7, 8, 9], "a newer run has failed");
        // the first deletion of this process measures the folder of the current run, too
        write(9, RUN_BYTES_MAX, "exit 0");
        RunFolders::default().delete_expired(&folder, &[8], 9);
        assert_eq!(left(), [8, 9], "the folder of a run in progress is kept");
    }
}
