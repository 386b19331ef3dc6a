//! The damaged documents of a store: which are known, and which a search cannot find.
//!
//! A document whose row does not match its checksum is never served. A reader gets its name instead, and its name is
//! logged once. All rows are verified when the store is opened, because a row with a damaged key is found only then:
//! a search for the document that it was would report an absence, which nothing may be concluded from (design 7).

use super::checksum;
use rusqlite::{Connection, Row};
use state::documents::draft::StoredDocument;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

/// A row that does not contain what was written.
pub(super) struct DamagedRow {
    /// The key of the document that the row contained; none if it cannot be determined.
    pub key: Option<String>,
    /// Whether the row is stored under another key.
    pub is_misplaced: bool,
    pub why: String,
}

/// The damaged documents of an open store.
#[derive(Default)]
pub(super) struct DamagedDocuments {
    /// The names that were logged.
    logged: Mutex<BTreeSet<String>>,
    /// The documents that a search does not find: their rows are stored under another key, or hidden by such a row.
    misplaced: BTreeSet<String>,
}

impl DamagedDocuments {
    /// Verifies all documents, and logs those that are damaged. An error if they cannot be determined: anything might be
    /// missing then.
    pub(super) fn find(connection: &Connection) -> Result<DamagedDocuments, String> {
        let mut damaged_documents = DamagedDocuments::default();
        for row in damaged_rows(connection).map_err(|error| error.to_string())? {
            let DamagedRow { key, is_misplaced, why } = row;
            let key = key.ok_or_else(|| format!("a document has lost its key: {why}"))?;
            damaged_documents.log(&key, &why);
            if is_misplaced {
                damaged_documents.misplaced.insert(key);
            }
        }
        if !damaged_documents.misplaced.is_empty() {
            // A search compares keys on its way: a row that is out of order hides others.
            let hidden = hidden_rows(connection).map_err(|error| error.to_string())?;
            hidden.iter().for_each(|key| damaged_documents.log(key, "a damaged row hides it"));
            damaged_documents.misplaced.extend(hidden);
        }
        Ok(damaged_documents)
    }

    /// Logs a damaged document, once.
    pub(super) fn log(&self, key: &str, why: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(key.to_owned()) {
            tracing::error!(
                document = key,
                why,
                "a stored document is damaged: what depends on it is unavailable; see pintle-controller check"
            );
        }
    }

    /// Returns the damaged documents below a prefix, after a key, up to and including another.
    pub(super) fn between<'q>(
        &'q self,
        prefix: &'q str,
        after: &str,
        until: Option<&'q str>,
    ) -> impl Iterator<Item = &'q String> {
        let from = match after < prefix {
            true => Bound::Included(prefix.to_owned()),
            false => Bound::Excluded(after.to_owned()),
        };
        let below = self.misplaced.range((from, Bound::Unbounded));
        below
            .take_while(move |key| key.starts_with(prefix) && until.is_none_or(|until| key.as_str() <= until))
    }

    /// Whether a document is known to be damaged.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.misplaced.contains(key)
    }
}

/// Reads a row of `documents`: key, revision, value, checksum.
pub(super) fn document(row: &Row<'_>) -> Result<StoredDocument, DamagedRow> {
    let damaged = |key: Option<String>, why: String| DamagedRow { key, is_misplaced: false, why };
    let stored_key = row.get_ref(0).ok().and_then(|key| key.as_bytes().ok()).unwrap_or_default();
    let key = std::str::from_utf8(stored_key).ok();
    let parts = || Ok::<_, rusqlite::Error>((row.get(1)?, row.get::<_, String>(2)?, row.get(3)?));
    let (revision, value, checksum): (i64, String, i64) = match parts() {
        Ok(parts) => parts,
        Err(error) => return Err(damaged(None, error.to_string())),
    };
    match key {
        Some(key) if checksum::of_document(key, revision, &value) == checksum => {
            Ok(StoredDocument { key: key.to_owned(), revision: revision as u64, value: value.into() })
        }
        key => match checksum::original_key(stored_key, revision, &value, checksum) {
            Some(original) => {
                let why = format!("its key was changed to {:?}", String::from_utf8_lossy(stored_key));
                Err(DamagedRow { key: Some(original), is_misplaced: true, why })
            }
            None => {
                let key = key.filter(|key| checksum::is_key_intact(key, revision, &value, checksum));
                Err(damaged(key.map(str::to_owned), "its checksum differs".to_owned()))
            }
        },
    }
}

/// Returns all damaged rows of `documents`.
pub(super) fn damaged_rows(connection: &Connection) -> rusqlite::Result<Vec<DamagedRow>> {
    let mut select = connection.prepare("SELECT key, revision, value, checksum FROM documents")?;
    let (mut rows, mut damaged) = (select.query([])?, Vec::new());
    while let Some(row) = rows.next()? {
        damaged.extend(document(row).err());
    }
    Ok(damaged)
}

/// Returns the documents that a search for their key does not find.
fn hidden_rows(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut select = connection.prepare("SELECT key, revision, value, checksum FROM documents")?;
    let mut find = connection.prepare("SELECT 1 FROM documents WHERE key = ?1")?;
    let (mut rows, mut hidden) = (select.query([])?, Vec::new());
    while let Some(row) = rows.next()? {
        if let Ok(stored) = document(row)
            && !find.exists([&stored.key])?
        {
            hidden.push(stored.key);
        }
    }
    Ok(hidden)
}
