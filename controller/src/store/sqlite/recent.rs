//! The newest commits, in memory. A stream that follows the store reads the change log only if it is further behind:
//! every commit wakes every stream, and a read of the database costs a hundred times as much as a read from memory.
//!
//! The writer adds commits when it publishes them. It leaves out commits that replaced a damaged document, and removes
//! those that the change log no longer contains. A commit is never added before it is synced.

use crate::store::CommitChanges;
use state::documents::draft::Revision;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Bytes of keys and values that are kept: some 4,000 commits of hooks, and two of the largest (5.5 MiB), which would
/// otherwise replace all others.
const BYTES_MAX: usize = 16 << 20;

/// The newest commits, without a gap between them.
#[derive(Default)]
pub(super) struct RecentCommits(Mutex<Commits>);

#[derive(Default)]
struct Commits {
    /// Oldest first.
    commits: VecDeque<CommitChanges>,
    bytes: usize,
}

/// Returns the bytes of the keys and the new values.
fn bytes(commit: &CommitChanges) -> usize {
    let of_value = |value: &Option<_>| value.as_deref().map_or(0, str::len);
    commit.entries.iter().map(|entry| entry.key.len() + of_value(&entry.value)).sum()
}

impl RecentCommits {
    /// Adds newer commits, and drops those before a gap, before the revision `oldest`, or beyond the bound.
    pub(super) fn add(&self, commits: Vec<CommitChanges>, oldest: Revision) {
        let mut recent = self.lock();
        for commit in commits {
            if recent.commits.back().is_some_and(|last| last.revision + 1 != commit.revision) {
                *recent = Commits::default();
            }
            recent.bytes += bytes(&commit);
            recent.commits.push_back(commit);
        }
        while let Some(first) = recent.commits.front()
            && (first.revision < oldest || recent.bytes > BYTES_MAX)
        {
            recent.bytes -= bytes(first);
            recent.commits.pop_front();
        }
    }

    /// Returns the commits after a revision up to `newest`, oldest first, at most `limit`. None if one of them is
    /// missing here.
    pub(super) fn after(
        &self,
        revision: Revision,
        newest: Revision,
        limit: usize,
    ) -> Option<Vec<CommitChanges>> {
        if revision == newest {
            return Some(Vec::new());
        }
        let recent = self.lock();
        let (first, last) = (recent.commits.front()?.revision, recent.commits.back()?.revision);
        let skipped = usize::try_from((revision + 1).checked_sub(first)?).ok()?;
        if last < newest {
            return None;
        }
        let count = limit.min(usize::try_from(newest.checked_sub(revision)?).ok()?);
        Some(recent.commits.iter().skip(skipped).take(count).cloned().collect())
    }

    /// Returns the commits after a revision up to `newest`, oldest first, without those that are not added yet. Empty if the
    /// first of them is missing here.
    pub(super) fn up_to(&self, revision: Revision, newest: Revision) -> Vec<CommitChanges> {
        let last = self.lock().commits.back().map_or(0, |last| last.revision);
        self.after(revision, newest.min(last).max(revision), usize::MAX).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Commits> {
        self.0.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DocumentChange;

    fn commit(revision: Revision, bytes: usize) -> CommitChanges {
        let value = Some("x".repeat(bytes).into());
        CommitChanges { revision, entries: vec![DocumentChange { key: String::new(), value }].into() }
    }

    fn after(recent: &RecentCommits, revision: Revision, limit: usize) -> Option<Vec<Revision>> {
        let commits = recent.after(revision, 14, limit)?;
        Some(commits.iter().map(|commit| commit.revision).collect())
    }

    #[test]
    fn commits_are_returned_from_the_position_on_and_not_at_all_if_the_first_is_missing() {
        let recent = RecentCommits::default();
        assert_eq!(after(&recent, 13, 9), None);
        recent.add((10..16).map(|revision| commit(revision, 1)).collect(), 0);
        assert_eq!(after(&recent, 9, 9), Some(vec![10, 11, 12, 13, 14]), "15 is not published yet");
        assert_eq!(after(&recent, 11, 2), Some(vec![12, 13]));
        assert_eq!(after(&recent, 14, 9), Some(vec![]));
        assert_eq!(after(&recent, 8, 9), None);
        assert_eq!(after(&recent, 15, 9), None, "a position in the future");
        recent.add(Vec::new(), 12);
        assert_eq!((after(&recent, 10, 9), after(&recent, 11, 9)), (None, Some(vec![12, 13, 14])));
    }

    #[test]
    fn nothing_is_returned_across_a_commit_that_is_missing() {
        let recent = RecentCommits::default();
        recent.add((10..14).map(|revision| commit(revision, 1)).collect(), 0);
        assert_eq!(after(&recent, 11, 9), None, "14 replaced a damaged document");
        recent.add(vec![commit(15, 1)], 0);
        assert_eq!((after(&recent, 11, 9), after(&recent, 14, 9)), (None, Some(vec![])));
    }

    #[test]
    fn the_oldest_commits_are_dropped_beyond_the_bound() {
        let recent = RecentCommits::default();
        recent.add((10..15).map(|revision| commit(revision, BYTES_MAX / 2)).collect(), 0);
        assert_eq!((after(&recent, 11, 9), after(&recent, 12, 9)), (None, Some(vec![13, 14])));
        assert_eq!(recent.lock().bytes, BYTES_MAX);
    }
}
