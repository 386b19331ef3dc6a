//! Decides how long each stored file (charm archive or resource) is kept after it became unused, and has the lock between
//! uploads and the removal of unused files.
//!
//! A file is kept for a grace period after it was last uploaded, looked up or used, so that a file is not deleted between
//! its upload and its first use. Used by the handlers of archives and resources, and by the janitor
//! (`janitor::archives`, which explains the order of the steps).

use state::documents::draft::Revision;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The state of the stored files that is kept in memory only, beside their documents. After a restart each file has the
/// whole grace period again.
#[derive(Default)]
pub(crate) struct ArchiveRetention {
    /// Held shared from storing a file to registering it, exclusively from removing a document to deleting its file.
    pub(crate) lock: tokio::sync::RwLock<()>,
    /// By digest: when the file was last needed. It contains only files that are registered or stored: a request cannot add
    /// another digest.
    last_needed: Mutex<BTreeMap<String, LastNeeded>>,
}

/// When a file was last uploaded or looked up, or first found unused.
#[derive(Clone, Copy, Default)]
struct LastNeeded {
    /// The time, on the monotonic clock.
    at_ms: u64,
    /// When any controller has last needed it, as a revision of the store (`Environment::stored_files`).
    revision: Revision,
}

impl ArchiveRetention {
    /// Starts the grace period of a stored or registered file again. The caller holds the lock.
    pub(crate) fn record_needed(&self, sha256: &str, now_ms: u64) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.entry(sha256.to_owned()).or_default().at_ms = now_ms;
    }

    /// Forgets all files that are not `unused`. A file that becomes unused later has the whole grace period.
    pub(crate) fn retain(&self, unused: &BTreeMap<String, Revision>) {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        last_needed.retain(|sha256, _| unused.contains_key(sha256));
    }

    /// Returns the unused files whose grace period is over. The grace period of a file that was not unused before, or that
    /// another controller has needed, starts now.
    pub(crate) fn expired(
        &self,
        unused: &BTreeMap<String, Revision>,
        now_ms: u64,
        grace_ms: u64,
    ) -> Vec<(String, Revision)> {
        let mut last_needed = self.last_needed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_expired = |(sha256, revision): &(&String, &Revision)| {
            let new = LastNeeded { at_ms: now_ms, revision: **revision };
            let known = last_needed.entry((*sha256).clone()).or_insert(new);
            if known.revision != **revision {
                *known = new;
            }
            now_ms.saturating_sub(known.at_ms) >= grace_ms
        };
        unused.iter().filter(is_expired).map(|(sha256, revision)| (sha256.clone(), *revision)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_was_in_use_starts_its_whole_grace_period() {
        let (archives, unused) = (ArchiveRetention::default(), BTreeMap::from([("a".to_owned(), 0)]));
        archives.record_needed("a", 0);
        archives.retain(&BTreeMap::new());
        assert_eq!(archives.last_needed.lock().expect("no holder panics").len(), 0);
        assert_eq!(archives.expired(&unused, 100, 10), []);
        archives.retain(&unused);
        assert_eq!(archives.expired(&unused, 110, 10), [("a".to_owned(), 0)]);
    }

    #[test]
    fn an_archive_that_another_controller_has_needed_starts_its_whole_grace_period() {
        let archives = ArchiveRetention::default();
        let unused = |revision| BTreeMap::from([("a".to_owned(), revision)]);
        assert_eq!(archives.expired(&unused(5), 100, 10), []);
        assert_eq!(archives.expired(&unused(6), 110, 10), [], "it was looked up meanwhile");
        assert_eq!(archives.expired(&unused(6), 119, 10), []);
        assert_eq!(archives.expired(&unused(6), 120, 10), [("a".to_owned(), 6)]);
    }
}
