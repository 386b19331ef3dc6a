//! The documents of a test's store, in memory.

use crate::documents::draft::{Reader, Revision, StoredDocument};
use crate::terms::store_engine::StoreEngine;
use std::collections::BTreeMap;

/// All documents as of one revision.
#[derive(Clone, Default)]
pub struct Documents {
    pub(super) revision: Revision,
    /// The engine of the store.
    pub engine: StoreEngine,
    pub map: BTreeMap<String, (Revision, String)>,
}

impl Reader for Documents {
    fn engine(&self) -> StoreEngine {
        self.engine
    }
    fn revision(&self) -> Revision {
        self.revision
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        let (revision, value) = self.map.get(key)?.clone();
        Some(StoredDocument { key: key.to_owned(), revision, value: value.into() })
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let from = prefix.max(after).to_owned();
        let range = self.map.range(from..).skip_while(|(key, _)| key.as_str() <= after);
        let below = range.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        below
            .map(|(key, (revision, value))| StoredDocument {
                key: key.clone(),
                revision: *revision,
                value: value.clone().into(),
            })
            .collect()
    }
}
