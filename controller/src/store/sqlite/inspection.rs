//! Reads a store that no controller has open, without changing it, for `pintle-controller check`.
//!
//! SQLite writes into the folder of a database even to read it, if a controller that was killed has left a WAL behind.
//! The database is therefore read from a copy.

use super::damaged_documents;
use super::open::{DATABASE, GenerationFile, VERSION, generation, structural_fault, why_incomplete};
use super::reads::{change_rows, newest_revision};
use rusqlite::{Connection, OpenFlags};
use state::documents::draft::{Reader, Revision, StoredDocument};
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
}

impl Inspection {
    /// Reads the store in `folder`. `copy` is an existing folder for the copy of the database. An error if the files
    /// cannot be copied, or if the store is of another version.
    pub fn read(folder: &Path, copy: &Path) -> Result<Inspection, String> {
        let mut inspection = Inspection::default();
        if let Some(fault) = why_incomplete(&folder.join(DATABASE)) {
            inspection.faults.push(format!("{DATABASE}: {fault}"));
            return Ok(inspection);
        }
        for name in [DATABASE.to_owned(), format!("{DATABASE}-wal")] {
            match std::fs::copy(folder.join(&name), copy.join(&name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("cannot copy {}: {error}", folder.join(name).display()));
                }
                _ => {}
            }
        }
        let connection = Connection::open_with_flags(copy.join(DATABASE), OpenFlags::SQLITE_OPEN_READ_WRITE);
        let connection = connection.map_err(|error| error.to_string())?;
        if let Err(error) = inspection.read_from(&connection, folder)? {
            inspection.faults.push(format!("{DATABASE}: {error}"));
        }
        Ok(inspection)
    }

    fn read_from(
        &mut self,
        connection: &Connection,
        folder: &Path,
    ) -> Result<Result<(), rusqlite::Error>, String> {
        match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)) {
            Err(error) => return Ok(Err(error)),
            Ok(VERSION) => {}
            Ok(found) => {
                return Err(format!(
                    "its store version is {found}, and this program checks version {VERSION}"
                ));
            }
        }
        Ok(self.read_rows(connection, folder))
    }

    fn read_rows(&mut self, connection: &Connection, folder: &Path) -> rusqlite::Result<()> {
        if let Some(why) = structural_fault(connection)? {
            self.faults.push(format!("{DATABASE}: {why}"));
        }
        self.revision = newest_revision(connection)?;
        let recorded = GenerationFile::load(folder);
        match (generation(connection), recorded) {
            (Err(why), _) => self.faults.push(format!("{DATABASE}: {why}")),
            (Ok(None), _) => self.faults.push(format!("{DATABASE}: it has no store generation")),
            (Ok(Some(stored)), Some(at)) if at.store_generation != stored => self.faults.push(format!(
                "{DATABASE}: it is of store generation {stored}, but {} is recorded",
                at.store_generation
            )),
            (Ok(Some(_)), Some(at)) if at.revision > self.revision => self.faults.push(format!(
                "{DATABASE}: it has revision {}, but revision {} was reached: it is an older copy",
                self.revision, at.revision
            )),
            (Ok(Some(_)), _) => {}
        }
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
        if change_rows(connection, 0, i64::MAX)?.is_none() {
            self.faults.push("the change log: damaged; agents read their whole views instead".to_owned());
        }
        Ok(())
    }
}

impl Reader for Inspection {
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
    fn note_damage(&self, _: &str, _: &str) {}
}
