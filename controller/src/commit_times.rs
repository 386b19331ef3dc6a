//! When each revision of the store was committed.
//!
//! The store keeps revisions, people ask for times. StoredArchive in memory only: of commits of an earlier process, only "before
//! this one started" is known. Noted by `session` at each commit, asked by `pending_since`.

use state::documents::draft::Revision;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// StoredArchive at once: some 100 KiB. What [`thin`] leaves is fewer than ln(a year / 1 ms) × [`EXACTNESS`] = 1,600.
const TIMES_MAX: usize = 4_096;
/// A time may be told too late by this part of its age.
const EXACTNESS: i64 = 64;

/// The commit times of revisions.
pub struct CommitTimes(Mutex<BTreeMap<Revision, i64>>);

impl CommitTimes {
    /// The store was at this revision when the controller started.
    pub fn new(newest: Revision, now_ms: i64) -> CommitTimes {
        CommitTimes(Mutex::new(BTreeMap::from([(newest, now_ms)])))
    }

    /// A commit was answered.
    pub fn note(&self, revision: Revision, now_ms: i64) {
        let mut times = self.times();
        times.entry(revision).or_insert(now_ms);
        if times.len() > TIMES_MAX {
            thin(&mut times, now_ms);
        }
    }

    /// When it was committed: at this time or, if it is not known exactly, before.
    pub fn time(&self, revision: Revision) -> Option<i64> {
        self.times().range(revision..).next().map(|(_, time)| *time)
    }

    fn times(&self) -> std::sync::MutexGuard<'_, BTreeMap<Revision, i64>> {
        self.0.lock().expect("no holder panics")
    }
}

/// Forgets the revisions after which another came so soon that its time does as well.
fn thin(times: &mut BTreeMap<Revision, i64>, now_ms: i64) {
    let mut kept = BTreeMap::new();
    let mut next: Option<i64> = None;
    for (revision, time) in std::mem::take(times).into_iter().rev() {
        if next.is_none_or(|next| next - time > (now_ms - time) / EXACTNESS) {
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
        let written = CommitTimes::new(5, 1_000);
        assert_eq!(written.time(3), Some(1_000), "before the start: by then it was there");
        written.note(6, 2_000);
        written.note(6, 9_000);
        assert_eq!((written.time(6), written.time(7)), (Some(2_000), None), "only the first answer counts");
        // a commit every 10 s for two days
        let time = |revision: Revision| revision as i64 * 10_000;
        let newest = 2 * 8_640;
        (7..=newest).for_each(|revision| written.note(revision, time(revision)));
        assert!(written.times().len() <= TIMES_MAX);
        for revision in 7..=newest {
            let (told, age) = (written.time(revision).expect("it was noted"), time(newest - revision));
            let late = told - time(revision);
            assert!((0..=age / 20).contains(&late), "{revision}, {age} ms old, is told {late} ms too late");
        }
    }
}
