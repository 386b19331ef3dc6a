//! What the connections of the SQLite engine read: documents, the change log, and the pool of reading connections.
//!
//! Nothing here writes. Used by [`super::Sqlite`], and by the writer and the opening of a store with their own
//! connection.

use crate::store::{CommitChanges, DocumentChange, Undo, scan_start, unavailable};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params,
};
use state::documents::draft::{Reader, Revision, StoredDocument};
use state::documents::json_text::Text;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Reading connections: twice the cores of a small machine; more would only wait for each other.
const READERS: usize = 4;
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

/// The documents that one connection sees. It panics if the disk cannot be read (design 15), because a transition
/// cannot continue without the document.
pub(super) struct ConnectionReader<'c> {
    pub(super) connection: &'c Connection,
    pub(super) revision: Revision,
}

pub(super) const READABLE: &str = "the store's file can be read";

impl Reader for ConnectionReader<'_> {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        let get = self.connection.prepare_cached("SELECT key, revision, value FROM documents WHERE key = ?1");
        get.expect(READABLE).query_row([key], stored).optional().expect(READABLE)
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let scan = "SELECT key, revision, value FROM documents WHERE key >= ?1 ORDER BY key";
        let mut scan = self.connection.prepare_cached(scan).expect(READABLE);
        let rows = scan.query_map([scan_start(prefix, after)], stored).expect(READABLE);
        let below = rows.map(|row| row.expect(READABLE)).take_while(|stored| stored.key.starts_with(prefix));
        below.filter(|stored| stored.key.as_str() > after).take(limit).collect()
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredDocument> {
    let revision: i64 = row.get(1)?;
    Ok(StoredDocument { key: row.get(0)?, revision: revision as u64, value: row.get::<_, String>(2)?.into() })
}

/// The pool of reading connections.
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
}

impl Readers {
    /// Opens all files that reading needs, now: a read later on must not depend on a free descriptor. A connection
    /// opens the WAL with its first read, and a file for sorting only if that is not done in memory.
    pub(super) fn open(file: &Path) -> rusqlite::Result<Readers> {
        let mut idle = Vec::new();
        for _ in 0..READERS {
            let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            newest_revision(&connection)?;
            idle.push(connection);
        }
        Ok(Readers::of(idle))
    }

    fn of(idle: Vec<Connection>) -> Readers {
        let free = Arc::new(Semaphore::new(idle.len()));
        Readers { idle: Arc::new(Mutex::new(idle)), free }
    }

    /// Closes the idle connections. A read that is running keeps its connection until it ends.
    pub(super) fn close(&self) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.clear();
        }
    }

    /// Runs a read in one read transaction, on a thread that may block. If the call is dropped, the read still
    /// completes. If SQLite cannot open a file, the request ends ([`unavailable`]).
    pub(super) async fn view<T, F>(&self, mut view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&ConnectionReader<'_>) -> T + Send + 'static,
    {
        loop {
            let permit = self.free.clone().acquire_owned().await.expect("the semaphore is never closed");
            let idle = self.idle.clone();
            let work = move || {
                let lock = || idle.lock().expect("no one panics with the idle connections");
                // 1. A read waits for a thread. 2. The controller stops: the call is dropped, and the last handle
                // closes the connections. 3. The read gets its thread; its result is no longer needed.
                let connection = lock().pop()?;
                let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Deferred);
                let transaction = transaction.expect(READABLE);
                // This read fixes the snapshot.
                let answer = match newest_revision(&transaction) {
                    Err(error) if cannot_open(&error) => Err((view, error.to_string())),
                    revision => {
                        let revision = revision.expect(READABLE);
                        Ok(view(&ConnectionReader { connection: &transaction, revision }))
                    }
                };
                drop(transaction);
                lock().push(connection);
                drop(permit);
                Some(answer)
            };
            let answer = tokio::task::spawn_blocking(work).await.expect("a view does not panic");
            match answer.expect("as many connections as permits, while the store is open") {
                Ok(answer) => return answer,
                Err((again, why)) => {
                    view = again;
                    unavailable::retry(why).await;
                }
            }
        }
    }
}

/// Whether SQLite could not open a file: nothing was read or written, and a later attempt may succeed.
pub(super) fn cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the log contains every commit after a revision that is not newer than the newest.
pub(super) fn covers(newest: &ConnectionReader<'_>, revision: Revision) -> rusqlite::Result<bool> {
    let oldest = oldest_revision(newest.connection)?;
    Ok(revision <= newest.revision && oldest.is_none_or(|oldest| revision + 1 >= oldest))
}

/// Reads the previous documents of all changes after a revision, oldest first.
pub(super) fn undo_since(connection: &Connection, revision: Revision) -> rusqlite::Result<Vec<Undo>> {
    let mut undo = connection.prepare_cached(
        "SELECT key, revision_before, value_before FROM changes WHERE revision > ?1 ORDER BY revision",
    )?;
    let rows = undo.query_map([revision as i64], |row| {
        let key: String = row.get(0)?;
        let before: Option<i64> = row.get(1)?;
        let value: Option<String> = row.get(2)?;
        let before = before.zip(value);
        let before = before.map(|(at, value)| StoredDocument {
            key: key.clone(),
            revision: at as u64,
            value: value.into(),
        });
        Ok(Undo { key, before })
    })?;
    rows.collect()
}

/// Reads the commits after a revision, oldest first, at most `limit`.
pub(super) fn changes_since(
    connection: &Connection,
    revision: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<CommitChanges>> {
    // Revisions have no gaps, so the last requested one is known.
    let last = revision.saturating_add(limit as u64).min(i64::MAX as u64);
    let mut select = connection.prepare_cached(
        "SELECT revision, key, value FROM changes WHERE revision > ?1 AND revision <= ?2 ORDER BY revision, key",
    )?;
    let mut rows = select.query(params![revision as i64, last as i64])?;
    let mut all: Vec<(Revision, Vec<DocumentChange>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let revision = row.get::<_, i64>(0)? as u64;
        let value: Option<String> = row.get(2)?;
        let change = DocumentChange { key: row.get(1)?, value: value.map(Text::from) };
        match all.last_mut().filter(|(last, _)| *last == revision) {
            Some((_, entries)) => entries.push(change),
            None => all.push((revision, vec![change])),
        }
    }
    Ok(all
        .into_iter()
        .map(|(revision, entries)| CommitChanges { revision, entries: entries.into() })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn a_request_ends_if_a_file_cannot_be_opened_and_other_reads_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store.sqlite");
        let writer = Connection::open(&file).expect("a database");
        writer.pragma_update(None, "journal_mode", "WAL").expect("a local disk");
        writer.execute_batch("CREATE TABLE changes (revision INTEGER)").expect("a new database");
        let reader = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it exists");
        let readers = Readers::of(vec![reader]);
        // The first read opens the WAL. A folder in its place cannot be opened.
        let (wal, aside) = (folder.path().join("store.sqlite-wal"), folder.path().join("aside"));
        fs::rename(&wal, &aside).expect("it exists");
        fs::create_dir(&wal).expect("made");
        let error = unavailable::answer(readers.view(|reader| reader.revision)).await.expect_err("a folder");
        assert!(error.to_string().contains("unable to open"), "{error}");
        let reading = tokio::spawn(async move { readers.view(|reader| reader.revision).await });
        tokio::task::yield_now().await;
        fs::remove_dir(&wal).expect("it is empty");
        fs::rename(&aside, &wal).expect("it exists");
        assert_eq!(reading.await.expect("it does not panic"), 0);
    }
}
