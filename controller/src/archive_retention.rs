//! Decides how long each stored file (charm archive or resource) is kept after it became unused, and has the lock between
//! uploads and the removal of unused files.
//!
//! A file is kept for a grace period after it was last uploaded, looked up or used, so that a file is not deleted between
//! its upload and its first use. Used by the handlers of archives and resources, and by the janitor
//! (`janitor::archives`, which explains the order of the steps).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The state of the stored files that is kept in memory only, beside their documents. After a restart each file has the
/// whole grace period again.
#[derive(Default)]
pub(crate) struct ArchiveRetention {
    /// Held shared from storing a file to registering it, exclusively from removing a document to deleting its file.
    pub(crate) lock: tokio::sync::RwLock<()>,
    /// By digest: when the file was last uploaded or looked up, or first found unused, on the monotonic clock. It
    /// contains only files that are registered or stored: a request cannot add another digest.
    last_needed: Mutex<BTreeMap<String, u64>>,
}

impl ArchiveRetention {
    /// Starts the grace period of a stored or registered file again. The caller holds the lock.
    pub(crate) fn record_needed(&self, sha256: &str, now_ms: u64) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.insert(sha256.to_owned(), now_ms);
    }

    /// Forgets all files that are not `unused`. A file that becomes unused later has the whole grace period.
    pub(crate) fn retain(&self, unused: &BTreeSet<String>) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.retain(|sha256, _| unused.contains(sha256));
    }

    /// Returns the unused files whose grace period is over. The grace period of a file that was not unused
    /// before starts now.
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
        let (archives, unused) = (ArchiveRetention::default(), BTreeSet::from(["a".to_owned()]));
        archives.record_needed("a", 0);
        archives.retain(&BTreeSet::new());
        assert_eq!(archives.last_needed.lock().expect("no holder panics").len(), 0);
        assert_eq!(archives.expired(&unused, 100, 10), Vec::<String>::new());
        archives.retain(&unused);
        assert_eq!(archives.expired(&unused, 110, 10), ["a"]);
    }
}
