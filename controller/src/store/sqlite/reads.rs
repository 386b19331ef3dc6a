//! The reads of the SQLite engine, from documents and from the change log.
//!
//! No function here writes. Used by `read_pool`, and by `writer`, `open` and `inspection` with their own connection.

use super::checksum;
use super::damaged_documents::{self, DamagedDocuments, DamagedRow};
use crate::store::usage::StoreUsage;
use crate::store::{CommitChanges, DocumentChange, Undo, scan_start};
use rusqlite::{Connection, ErrorCode, Row, ffi, params};
use state::documents::draft::{Reader, Revision, StoredDocument};
use state::documents::json_text::Text;
use state::terms::store_engine::StoreEngine;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Cached statements per connection: more than the statements below.
pub(super) const STATEMENTS: usize = 32;

/// Reads the newest revision. Every commit has a row in the log, and the newest rows are never pruned.
pub(super) fn newest_revision(connection: &Connection) -> rusqlite::Result<Revision> {
    let mut newest = connection.prepare_cached("SELECT max(revision) FROM changes")?;
    let newest: Option<i64> = newest.query_row([], |row| row.get(0))?;
    Ok(newest.unwrap_or(0) as u64)
}

/// Reads the oldest revision in the log.
pub(super) fn oldest_revision(connection: &Connection) -> rusqlite::Result<Option<Revision>> {
    let mut oldest = connection.prepare_cached("SELECT min(revision) FROM changes")?;
    let oldest: Option<i64> = oldest.query_row([], |row| row.get(0))?;
    Ok(oldest.map(|oldest| oldest as u64))
}

/// The documents that one connection reads. A document that cannot be read appears as absent and is recorded: the result
/// of a view or a transition that has read it must not be used.
pub(super) struct ConnectionReader<'c> {
    pub(super) connection: &'c Connection,
    pub(super) revision: Revision,
    damaged_documents: &'c DamagedDocuments,
    /// The damaged documents that were read, or the prefix of documents that cannot be listed.
    damaged: RefCell<BTreeSet<String>>,
    /// Whether this reads for the writer, which rolls its transaction back after a write error.
    is_for_writer: bool,
    /// The write error that ended a read of the writer. No document is damaged then.
    write_error: RefCell<Option<rusqlite::Error>>,
}

impl<'c> ConnectionReader<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        revision: Revision,
        damaged_documents: &'c DamagedDocuments,
    ) -> ConnectionReader<'c> {
        let (damaged, write_error) = (RefCell::default(), RefCell::default());
        ConnectionReader {
            connection,
            revision,
            damaged_documents,
            damaged,
            is_for_writer: false,
            write_error,
        }
    }

    /// The reader of the writer's transaction.
    pub(super) fn for_writer(
        connection: &'c Connection,
        revision: Revision,
        damaged_documents: &'c DamagedDocuments,
    ) -> ConnectionReader<'c> {
        ConnectionReader {
            is_for_writer: true,
            ..ConnectionReader::new(connection, revision, damaged_documents)
        }
    }

    /// Returns the write error that ended a read. What was read must not be used then.
    pub(super) fn take_write_error(&self) -> Option<rusqlite::Error> {
        self.write_error.borrow_mut().take()
    }

    /// A document that cannot be read is recorded, whatever the reason: nothing may be concluded from its absence.
    fn record_error(&self, key: &str, error: rusqlite::Error) {
        match self.is_for_writer && is_write_error(&error) {
            true => drop(self.write_error.replace(Some(error))),
            false => self.record_damage(key, &error.to_string()),
        }
    }

    /// Returns the damaged documents that were read.
    pub(super) fn damaged(&self) -> Vec<String> {
        self.damaged.borrow().iter().cloned().collect()
    }

    fn record_row(&self, row: DamagedRow, sought: &str) {
        self.record_damage(row.key.as_deref().unwrap_or(sought), &row.why);
    }

    fn find(&self, key: &str) -> rusqlite::Result<Option<Result<StoredDocument, DamagedRow>>> {
        let get = "SELECT key, revision, value, checksum FROM documents WHERE key = ?1";
        let mut get = self.connection.prepare_cached(get)?;
        let mut rows = get.query([key])?;
        Ok(rows.next()?.map(damaged_documents::document))
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        found: &mut Vec<StoredDocument>,
    ) -> rusqlite::Result<()> {
        let scan = "SELECT key, revision, value, checksum FROM documents WHERE key >= ?1 ORDER BY key";
        let mut scan = self.connection.prepare_cached(scan)?;
        let mut rows = scan.query([scan_start(prefix, after)])?;
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            match damaged_documents::document(row) {
                Ok(stored) if !stored.key.starts_with(prefix) => break,
                Ok(stored) if stored.key.as_str() > after => found.push(stored),
                Ok(_) => {}
                // A row with a damaged key may be anywhere; `between` adds it where it belongs.
                Err(row) => match &row.key {
                    Some(key) if !key.starts_with(prefix) || key.as_str() <= after => {}
                    _ => self.record_row(row, prefix),
                },
            }
        }
        Ok(())
    }
}

impl Reader for ConnectionReader<'_> {
    fn engine(&self) -> StoreEngine {
        StoreEngine::Sqlite
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        match self.find(key) {
            Ok(Some(Ok(stored))) => return Some(stored),
            Ok(Some(Err(row))) => {
                self.record_row(row, key);
                self.record_damage(key, "a damaged row is in its place");
            }
            Ok(None) if self.damaged_documents.contains(key) => {
                self.record_damage(key, "a search does not find it")
            }
            Ok(None) => {}
            Err(error) => self.record_error(key, error),
        }
        None
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let mut found = Vec::new();
        if limit == 0 {
            return found;
        }
        if let Err(error) = self.list(prefix, after, limit, &mut found) {
            self.record_error(prefix, error);
        }
        let until = found.last().filter(|_| found.len() == limit).map(|last| last.key.as_str());
        for key in self.damaged_documents.between(prefix, after, until) {
            self.record_damage(key, "a search does not find it");
        }
        found
    }

    fn record_damage(&self, key: &str, why: &str) {
        self.damaged_documents.log(key, why);
        self.damaged.borrow_mut().insert(key.to_owned());
    }
}

/// The name of the change log in lists of damaged documents.
pub(super) const CHANGE_LOG: &str = "(the change log)";

/// Whether an error was caused by damaged contents, or by a disk that cannot read them. A transaction that fails with it
/// can be rolled back.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => true,
        error => {
            let code = error.sqlite_error_code();
            matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) || is_read_error(error)
        }
    }
}

fn is_read_error(error: &rusqlite::Error) -> bool {
    let reads = [ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_SHORT_READ, ffi::SQLITE_IOERR_CORRUPTFS];
    error.sqlite_extended_error_code().is_some_and(|code| reads.contains(&code))
}

/// Whether a file could not be written. A statement that only reads may fail with it, because SQLite writes changed
/// pages early to free its cache.
pub(super) fn is_write_error(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code == Some(ErrorCode::DiskFull) || code == Some(ErrorCode::SystemIoFailure) && !is_read_error(error)
}

/// Whether SQLite could not open a file: nothing was read or written, and a later attempt may succeed.
pub(super) fn cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the log contains every commit after a revision. False for a revision in the future.
pub(super) fn covers(newest: &ConnectionReader<'_>, revision: Revision) -> rusqlite::Result<bool> {
    let oldest = oldest_revision(newest.connection)?;
    Ok(revision <= newest.revision && oldest.is_none_or(|oldest| revision + 1 >= oldest))
}

/// One row of the change log.
pub(super) struct ChangeRow {
    revision: Revision,
    change: DocumentChange,
    undo: Undo,
}

/// Reads a row of `changes`: revision, key, value, revision_before, value_before, checksum. None if it is damaged.
fn change(row: &Row<'_>) -> Option<ChangeRow> {
    let before: Option<i64> = row.get(3).ok()?;
    let value_before: Option<String> = row.get(4).ok()?;
    let (revision, key): (i64, String) = (row.get(0).ok()?, row.get(1).ok()?);
    let (value, checksum): (Option<String>, Option<i64>) = (row.get(2).ok()?, row.get(5).ok()?);
    let sum = checksum::of_change(revision, &key, value.as_deref(), before.zip(value_before.as_deref()));
    if checksum != Some(sum) {
        return None;
    }
    let before = before.zip(value_before).map(|(at, value)| StoredDocument {
        key: key.clone(),
        revision: at as u64,
        value: value.into(),
    });
    let undo = Undo { key: key.clone(), before };
    let change = DocumentChange { key, value: value.map(Text::from) };
    Some(ChangeRow { revision: revision as u64, change, undo })
}

/// The rows of the change log after a revision, up to and including another one.
const CHANGE_ROWS: &str = "SELECT revision, key, value, revision_before, value_before, checksum FROM changes
     WHERE revision > ?1 AND revision <= ?2 ORDER BY revision, key";

/// Reads the rows of the change log after revision `from`, up to and including `until`. None if one of them is damaged:
/// the caller then reads the newest documents again, as after a compaction.
pub(super) fn change_rows(
    connection: &Connection,
    from: i64,
    until: i64,
) -> rusqlite::Result<Option<Vec<ChangeRow>>> {
    let mut select = connection.prepare_cached(CHANGE_ROWS)?;
    let rows = select.query_map(params![from, until], |row| Ok(change(row)))?;
    rows.collect()
}

/// The most bytes of earlier documents that one read at an older revision loads: as many as those of the commits that
/// are kept in memory (`recent`). A reader that is further behind reads the newest documents, which costs less. A unit
/// chooses the revision, so without this bound each of its requests could load the whole change log.
const UNDO_BYTES_MAX: usize = 16 << 20;

/// Reads the previous documents of all changes after a revision, oldest first. None if the log is damaged, or if they
/// have more than [`UNDO_BYTES_MAX`].
pub(super) fn undo_since(connection: &Connection, revision: Revision) -> rusqlite::Result<Option<Vec<Undo>>> {
    let mut select = connection.prepare_cached(CHANGE_ROWS)?;
    let mut rows = select.query(params![revision as i64, i64::MAX])?;
    let (mut all, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let Some(ChangeRow { undo, .. }) = change(row) else { return Ok(None) };
        bytes += undo.key.len() + undo.before.as_ref().map_or(0, |before| before.value.len());
        if bytes > UNDO_BYTES_MAX {
            return Ok(None);
        }
        all.push(undo);
    }
    Ok(Some(all))
}

/// The most revisions whose keys [`changed_since`] reads. To read more would cost as much as the work that it saves.
const FOLLOWED_MAX: u64 = 2_000;

/// Reads the keys of the documents that were changed after a revision. None if there were too many commits, or if the
/// log does not reach the revision or is damaged.
pub(super) fn changed_since(newest: &ConnectionReader<'_>, revision: Revision) -> Option<Vec<String>> {
    if newest.revision == revision {
        return Some(Vec::new());
    }
    let is_covered =
        newest.revision.saturating_sub(revision) <= FOLLOWED_MAX && covers(newest, revision).ok()?;
    let rows = is_covered.then(|| change_rows(newest.connection, revision as i64, i64::MAX))?.ok()??;
    Some(rows.into_iter().map(|row| row.undo.key).collect())
}

/// Reads the commits after a revision, oldest first, at most `limit`. None if the log is damaged.
pub(super) fn changes_since(
    connection: &Connection,
    revision: Revision,
    limit: usize,
) -> rusqlite::Result<Option<Vec<CommitChanges>>> {
    // Revisions have no gaps, so the last requested one is known.
    let last = revision.saturating_add(limit as u64).min(i64::MAX as u64);
    let Some(rows) = change_rows(connection, revision as i64, last as i64)? else { return Ok(None) };
    let mut all: Vec<(Revision, Vec<DocumentChange>)> = Vec::new();
    for ChangeRow { revision, change, .. } in rows {
        match all.last_mut().filter(|(last, _)| *last == revision) {
            Some((_, entries)) => entries.push(change),
            None => all.push((revision, vec![change])),
        }
    }
    let changes =
        |(revision, entries): (Revision, Vec<_>)| CommitChanges { revision, entries: entries.into() };
    Ok(Some(all.into_iter().map(changes).collect()))
}

/// Returns the bytes of the files and of the documents. What cannot be read counts as 0 bytes.
pub(super) fn usage(connection: &Connection) -> StoreUsage {
    let file = |suffix: &str| {
        let path = format!("{}{suffix}", connection.path().unwrap_or_default());
        std::fs::metadata(path).map_or(0, |found| found.len())
    };
    let changes = change_bytes(connection).unwrap_or_default();
    let mut usage = StoreUsage {
        database_bytes: file(""),
        wal_bytes: file("-wal"),
        change_log_bytes: changes.iter().map(|(_, bytes)| bytes).sum(),
        ..StoreUsage::default()
    };
    count_documents(connection, &mut usage).ok();
    usage
}

fn count_documents(connection: &Connection, usage: &mut StoreUsage) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached("SELECT key, octet_length(value) FROM documents")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // A damaged row counts as 0 bytes.
        if let (Ok(key), Ok(bytes)) = (row.get_ref(0)?.as_str(), row.get::<_, i64>(1)) {
            usage.add(key, bytes.unsigned_abs());
        }
    }
    Ok(())
}

/// Returns the bytes of each revision in the change log, oldest first.
pub(super) fn change_bytes(connection: &Connection) -> rusqlite::Result<Vec<(Revision, u64)>> {
    let mut select = connection.prepare(
        "SELECT revision, sum(octet_length(key) + coalesce(octet_length(value), 0)
                              + coalesce(octet_length(value_before), 0))
         FROM changes GROUP BY revision ORDER BY revision",
    )?;
    let rows =
        select.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}
