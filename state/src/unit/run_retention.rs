//! Decides which folders of earlier runs a unit agent deletes.
//!
//! The folder of a run contains the output and the tool calls of its hook. Two folders are always kept: that of the
//! current or newest run, which the next agent may need to continue it, and that of the last failed run, which a person
//! needs to find the reason. The oldest of the others are deleted beyond a number of folders and a number of bytes.

use std::collections::BTreeMap;

/// The number of run folders that are kept for a unit.
pub const RUNS_KEPT: usize = 200;
/// The bytes of the run folders that are kept for a unit: 64 MiB, about 320 KiB for each of 200. A usual run takes
/// 20 KiB. One run alone may take some 130 MiB (128 MiB of tool calls and its output), so that a unit has at most two
/// such folders, the current and the last failed one.
pub const RUN_BYTES_MAX: u64 = 64 << 20;

/// The folder of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// Its size on the disk.
    pub bytes: u64,
    /// Whether the run failed.
    pub has_failed: bool,
}

/// The numbers of the runs whose folders are deleted, when run `current` is running or has just ended.
pub fn expired(runs: &BTreeMap<u64, RunFolder>, current: u64) -> Vec<u64> {
    let last_failed = runs.iter().rev().find(|(_, run)| run.has_failed).map(|(number, _)| *number);
    let is_kept = |number: &u64| *number == current || Some(*number) == last_failed;
    let kept = runs.iter().filter(|(number, _)| is_kept(number));
    let (mut count, mut bytes) = kept.fold((0, 0), |(count, bytes), (_, run)| (count + 1, bytes + run.bytes));
    let mut expired = Vec::new();
    for (number, run) in runs.iter().rev().filter(|(number, _)| !is_kept(number)) {
        (count, bytes) = (count + 1, bytes + run.bytes);
        if count > RUNS_KEPT || bytes > RUN_BYTES_MAX {
            expired.push(*number);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: u64) -> RunFolder {
        RunFolder { bytes, has_failed: false }
    }

    #[test]
    fn the_oldest_runs_beyond_the_count_are_deleted() {
        let runs = (1..=203).map(|number| (number, run(1))).collect();
        assert_eq!(expired(&runs, 203), [3, 2, 1]);
    }

    #[test]
    fn the_oldest_runs_beyond_the_bytes_are_deleted() {
        let third = RUN_BYTES_MAX / 3;
        let runs = BTreeMap::from([(1, run(1)), (2, run(third)), (3, run(third)), (4, run(third))]);
        assert!(expired(&runs, 4).is_empty());
        let runs = BTreeMap::from([(1, run(1)), (2, run(third)), (3, run(third + 9)), (4, run(third))]);
        assert_eq!(expired(&runs, 4), [2, 1], "nothing is kept that is older than what is deleted");
    }

    #[test]
    fn the_current_and_the_last_failed_run_are_kept_whatever_they_take() {
        let failed = RunFolder { bytes: RUN_BYTES_MAX, has_failed: true };
        let large = run(RUN_BYTES_MAX);
        let runs = BTreeMap::from([(1, failed), (2, failed), (3, run(1)), (4, run(1)), (5, large)]);
        assert_eq!(expired(&runs, 5), [4, 3, 1]);
    }
}
