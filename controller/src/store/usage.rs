//! The bytes of a store's files, and of its documents by model and kind, for `disk-usage`.
//!
//! Filled by the engines; the handler of `GetDiskUsage` shows it.

use state::documents::prelude::{KeyParts, Kind};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// The bytes of the store's files and documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// The database file; 0 for a store without files.
    pub database_bytes: u64,
    /// The write-ahead log.
    pub wal_bytes: u64,
    /// The change log in the database.
    pub change_log_bytes: u64,
    /// The bytes of documents with their keys, by model and kind.
    pub documents: BTreeMap<(Uuid, Kind), u64>,
    /// The bytes of log lines with their keys, by model and unit.
    pub log_bytes: BTreeMap<(Uuid, Uuid), u64>,
}

impl StoreUsage {
    /// Counts one document.
    pub fn add(&mut self, key: &str, value_bytes: u64) {
        let Some(parts) = KeyParts::of(key) else { return };
        let Ok(model) = parts.model.parse() else { return };
        let bytes = key.len() as u64 + value_bytes;
        *self.documents.entry((model, parts.kind)).or_default() += bytes;
        if let (Kind::Log, Some(unit)) = (parts.kind, parts.ids().first()) {
            *self.log_bytes.entry((model, *unit)).or_default() += bytes;
        }
    }

    /// Returns the bytes of one kind of documents of a model.
    pub fn of_kind(&self, model: Uuid, kind: Kind) -> u64 {
        self.documents.get(&(model, kind)).copied().unwrap_or(0)
    }

    /// Returns the bytes of all documents of a model.
    pub fn of_model(&self, model: Uuid) -> u64 {
        self.documents.iter().filter(|((of, _), _)| *of == model).map(|(_, bytes)| bytes).sum()
    }
}
