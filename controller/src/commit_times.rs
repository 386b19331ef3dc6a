//! The wall-clock time at which each revision of the store was committed.
//!
//! Documents carry revisions, but users need times. The times are kept in memory only: for a commit of an earlier
//! process, the known time is the start of this process. `callers` records each commit; `why` reads the times.

use state::documents::draft::Revision;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Times kept in memory: some 100 KiB. [`prune`] keeps fewer than ln(a year / 1 ms) × [`AGE_FRACTION`] = 1,600.
const TIMES_MAX: usize = 4_096;
/// A reported time may be later than the true time by at most one part in this many of its age.
const AGE_FRACTION: i64 = 64;

/// The commit times of revisions.
pub struct CommitTimes(Mutex<BTreeMap<Revision, i64>>);

impl CommitTimes {
    /// `newest` is the store's revision when the controller started.
    pub fn new(newest: Revision, now_ms: i64) -> CommitTimes {
        CommitTimes(Mutex::new(BTreeMap::from([(newest, now_ms)])))
    }

    /// Records the time of a commit. A revision that is already recorded keeps its first time.
    pub fn record(&self, revision: Revision, now_ms: i64) {
        let mut times = self.times();
        times.entry(revision).or_insert(now_ms);
        if times.len() > TIMES_MAX {
            prune(&mut times, now_ms);
        }
    }

    /// Returns the commit time of a revision, in milliseconds since the epoch. If the exact time is not kept, the
    /// result is a later time. None if the revision has not been recorded yet.
    pub fn time(&self, revision: Revision) -> Option<i64> {
        self.times().range(revision..).next().map(|(_, time)| *time)
    }

    fn times(&self) -> std::sync::MutexGuard<'_, BTreeMap<Revision, i64>> {
        self.0.lock().expect("no holder panics")
    }
}

/// Removes each revision that was followed by another so soon that the later time is exact enough.
fn prune(times: &mut BTreeMap<Revision, i64>, now_ms: i64) {
    let mut kept = BTreeMap::new();
    let mut next: Option<i64> = None;
    for (revision, time) in std::mem::take(times).into_iter().rev() {
        if next.is_none_or(|next| next - time > (now_ms - time) / AGE_FRACTION) {
            kept.insert(revision, time);
            next = Some(time);
        }
    }
    *times = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_exact_while_there_is_room_and_then_late_by_a_small_part_of_its_age() {
        let times = CommitTimes::new(5, 1_000);
        assert_eq!(times.time(3), Some(1_000), "a commit before the start has the time of the start");
        times.record(6, 2_000);
        times.record(6, 9_000);
        assert_eq!((times.time(6), times.time(7)), (Some(2_000), None), "the first recorded time is kept");
        // a commit every 10 s for two days
        let time = |revision: Revision| revision as i64 * 10_000;
        let newest = 2 * 8_640;
        (7..=newest).for_each(|revision| times.record(revision, time(revision)));
        assert!(times.times().len() <= TIMES_MAX);
        for revision in 7..=newest {
            let (reported, age) = (times.time(revision).expect("it was recorded"), time(newest - revision));
            let late = reported - time(revision);
            assert!(
                (0..=age / 20).contains(&late),
                "{revision}, {age} ms old, is reported {late} ms too late"
            );
        }
    }
}
