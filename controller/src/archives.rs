//! When each charm archive was last needed, and the lock between uploads and the removal of unused archives.
//!
//! The handlers of uploads and the janitor (`janitor::archives`, which explains the order) use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// What the controller knows about its archives beside their documents: in memory only. After a restart each archive has
/// the whole grace period again.
#[derive(Default)]
pub(crate) struct Archives {
    /// Held shared from storing a file to registering it, exclusively from removing a document to deleting its file.
    pub(crate) lock: tokio::sync::RwLock<()>,
    /// By digest: when the archive was last uploaded, found or in use, on the monotonic clock. At most the archives that
    /// are registered or stored: a request cannot add another digest.
    last_needed: Mutex<BTreeMap<String, u64>>,
}

impl Archives {
    /// Starts the grace period of a stored or registered archive again. The caller holds the lock.
    pub(crate) fn note_needed(&self, sha256: &str, now_ms: u64) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.insert(sha256.to_owned(), now_ms);
    }

    /// Forgets the archives that are in use or gone. An archive that is unused later starts its whole grace period.
    pub(crate) fn retain(&self, unused: &BTreeSet<String>) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.retain(|sha256, _| unused.contains(sha256));
    }

    /// The unused archives whose grace period is over. Archives that are seen for the first time start theirs.
    pub(crate) fn expired(&self, unused: &BTreeSet<String>, now_ms: u64, grace_ms: u64) -> Vec<String> {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_expired = |sha256: &&String| {
            now_ms.saturating_sub(*last_needed.entry((*sha256).clone()).or_insert(now_ms)) >= grace_ms
        };
        unused.iter().filter(is_expired).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_was_in_use_starts_its_whole_grace_period() {
        let (archives, unused) = (Archives::default(), BTreeSet::from(["a".to_owned()]));
        archives.note_needed("a", 0);
        archives.retain(&BTreeSet::new());
        assert_eq!(archives.last_needed.lock().expect("no holder panics").len(), 0);
        assert_eq!(archives.expired(&unused, 100, 10), Vec::<String>::new());
        archives.retain(&unused);
        assert_eq!(archives.expired(&unused, 110, 10), ["a"]);
    }
}
