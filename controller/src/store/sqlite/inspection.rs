//! Reads a store that no controller has open, without changing it, for `pintle-controller check`.
//!
//! Its faults begin with everything for which [`super::Sqlite::open`] would refuse the store, in the same words.
//!
//! SQLite writes into the folder of a database even to read it, if a controller that was killed has left a WAL behind.
//! The database is therefore read from a copy.

use super::damaged_documents;
use super::generation_file::GenerationFile;
use super::open::{DATABASE, OpenError, refusals, why_incomplete};
use super::reads::{change_rows, newest_revision};
use host::file::exists;
use rusqlite::{Connection, OpenFlags};
use state::documents::draft::{Reader, Revision, StoredDocument};
use state::terms::store_engine::StoreEngine;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

/// The intact documents of a store, and the faults of the store.
#[derive(Default)]
pub struct Inspection {
    /// The intact documents, by key.
    pub documents: BTreeMap<String, StoredDocument>,
    revision: Revision,
    /// One line for each fault.
    pub faults: Vec<String>,
    /// What a start demands of an intact copy.
    pub note: Option<String>,
}

impl Inspection {
    /// Reads the store in `folder`, which is that of a controller (`is_data`) or has a copy of a database, perhaps without
    /// its `generation.yaml`. `copy` is an existing folder for the copy of the database. An error if the files cannot be
    /// copied, or if the store is of another version.
    pub fn read(folder: &Path, copy: &Path, is_data: bool) -> Result<Inspection, String> {
        let mut inspection = Inspection::default();
        for name in [DATABASE.to_owned(), format!("{DATABASE}-wal")] {
            match std::fs::copy(folder.join(&name), copy.join(&name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("cannot copy {}: {error}", folder.join(name).display()));
                }
                _ => {}
            }
        }
        let readable = copy.join(DATABASE);
        let is_recorded = !matches!(exists(&GenerationFile::path(folder)), Ok(false));
        for refusal in refusals(folder, &readable, !is_data && !is_recorded) {
            match refusal {
                OpenError::OtherVersion { .. } => return Err(refusal.to_string()),
                OpenError::CopiedIntoPlace { .. } => inspection.note = Some(refusal.to_string()),
                refusal => inspection.faults.push(refusal.to_string()),
            }
        }
        if let Some(fault) = why_incomplete(&folder.join(DATABASE)) {
            if inspection.faults.is_empty() {
                inspection.faults.push(format!("{DATABASE}: {fault}"));
            }
            return Ok(inspection);
        }
        if let Err(error) = inspection.read_rows(&readable)
            && inspection.faults.is_empty()
        {
            inspection.faults.push(format!("{DATABASE}: {error}"));
        }
        Ok(inspection)
    }

    fn read_rows(&mut self, readable: &Path) -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(readable, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        self.revision = newest_revision(&connection)?;
        let mut select = connection.prepare("SELECT key, revision, value, checksum FROM documents")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            match damaged_documents::document(row) {
                Ok(stored) => drop(self.documents.insert(stored.key.clone(), stored)),
                Err(row) => {
                    let key = row.key.unwrap_or_else(|| "a document whose key is not known".to_owned());
                    self.faults.push(format!("{key}: damaged: {}", row.why));
                }
            }
        }
        if change_rows(&connection, 0, i64::MAX)?.is_none() {
            self.faults.push("the change log: damaged; agents read their whole views instead".to_owned());
        }
        Ok(())
    }
}

impl Reader for Inspection {
    fn engine(&self) -> StoreEngine {
        StoreEngine::Sqlite
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.documents.get(key).cloned()
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let below = self.documents.range::<str, _>((from, Bound::Unbounded));
        below.take_while(|(key, _)| key.starts_with(prefix)).take(limit).map(|(_, s)| s.clone()).collect()
    }

    /// Does nothing: `check` reports documents that are not of their type itself.
    fn record_damage(&self, _: &str, _: &str) {}
}
