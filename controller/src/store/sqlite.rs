//! The SQLite engine of the store (design 8): WAL mode, every commit synced.
//!
//! One thread owns the only writing connection. It takes all waiting requests, runs their transitions one after the
//! other in one SQLite transaction, commits once, and then replies to all of them, since even a refusal may depend on
//! the writes of an earlier request. A transition decides before it writes, so a refusal leaves nothing to undo; with a
//! single writer, transitions never conflict. Reads use their own connections and see only synced documents.
//!
//! After a failed commit the state on disk is unknown, unless the disk is full. The engine then rejects all further
//! requests ([`Sqlite::broken`]), and the process must exit.
//!
//! The folder also contains `store.lock` (the process that has the store open) and `history.yaml` (the store generation
//! and a revision that it has reached). The latter detects a database that was restored from a backup.

mod open;
mod writer;

pub use open::{OpenError, Options, VERSION};

use super::{
    ApplyError, CommitChanges, Committed, Compacted, DocumentChange, EarlierReader, Position, RunError,
    Store, StoreError, Undo, scan_start,
};
use open::OpenStore;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use state::documents::draft::{Draft, Reader, Revision, StoredDocument, Txn};
use state::documents::json_text::Text;
use state::terms::names::Uuid;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use writer::{ApplyRequest, QUEUE_MAX, TransitionRequest, WriteRequest, Writer};

/// Reading connections: twice the cores of a small machine; more would only wait for each other.
const READERS: usize = 4;
/// Cached statements per connection: more than the statements below.
const STATEMENTS: usize = 32;

/// A store in a folder. Dropping the last handle closes it: it waits for the pending requests, then releases the lock.
#[derive(Clone)]
pub struct Sqlite(Arc<Shared>);

struct Shared {
    store_generation: Uuid,
    /// None while closing.
    requests: Option<mpsc::Sender<Box<dyn WriteRequest>>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    newest: Arc<watch::Sender<Revision>>,
    broken: Arc<watch::Sender<Option<String>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.requests = None;
        // The writer then closes the last connection, which merges the WAL into the database file.
        if let Ok(mut idle) = self.readers.idle.lock() {
            idle.clear();
        }
        // A transition that owns the last handle is dropped by the writer, which cannot wait for itself.
        if let Some(writer) = self.writer.take().filter(|w| w.thread().id() != std::thread::current().id()) {
            let _ = writer.join(); // an error is a panic, which its callers have already received
        }
    }
}

impl Sqlite {
    /// Opens the store in an existing folder; creates the database if there is none.
    pub fn open(folder: &Path, options: Options) -> Result<Sqlite, OpenError> {
        let OpenStore { lock, file, connection, sidecar, store_generation, newest } =
            open::open(folder, &options)?;
        let failed = |why: String| OpenError::Failed { folder: folder.to_owned(), why };
        let oldest = oldest_revision(&connection).map_err(|e| failed(e.to_string()))?;
        let readers = Readers::open(&file).map_err(|e| failed(e.to_string()))?;

        let newest = Arc::new(watch::Sender::new(newest));
        let broken = Arc::new(watch::Sender::new(None));
        let (requests, waiting) = mpsc::channel(QUEUE_MAX);
        let writer = Writer {
            connection,
            sidecar,
            _lock: lock,
            oldest: oldest.unwrap_or(*newest.borrow() + 1),
            changes_kept: options.changes_kept.max(1),
            newest: newest.clone(),
            broken: broken.clone(),
        };
        let thread = std::thread::Builder::new().name("store".to_owned());
        let writer = thread.spawn(move || writer.serve(waiting)).map_err(|e| failed(e.to_string()))?;
        let (requests, writer) = (Some(requests), Some(writer));
        Ok(Sqlite(Arc::new(Shared { store_generation, requests, writer, readers, newest, broken })))
    }

    /// Waits until the engine is broken and returns the reason. The process must then exit.
    pub async fn broken(&self) -> String {
        let mut broken = self.0.broken.subscribe();
        let why = broken.wait_for(Option::is_some).await.expect("self keeps the sender");
        why.clone().unwrap_or_default()
    }

    /// Sends a request to the writer and waits for its reply.
    async fn send<T>(
        &self,
        request: Box<dyn WriteRequest>,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, StoreError> {
        let requests = self.0.requests.as_ref().expect("the store is open while there is a handle");
        let stopped = || StoreError::Broken("the writer thread has stopped".to_owned());
        requests.send(request).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }

    fn contains_position(&self, position: Position) -> bool {
        position.store_generation == self.0.store_generation
    }
}

/// Reads the newest revision. Every commit has a row in the log, and the newest rows are never pruned.
fn newest_revision(connection: &Connection) -> rusqlite::Result<Revision> {
    let mut newest = connection.prepare_cached("SELECT max(revision) FROM changes")?;
    let newest: Option<i64> = newest.query_row([], |row| row.get(0))?;
    Ok(newest.unwrap_or(0) as u64)
}

/// Reads the oldest revision in the log.
fn oldest_revision(connection: &Connection) -> rusqlite::Result<Option<Revision>> {
    let mut oldest = connection.prepare_cached("SELECT min(revision) FROM changes")?;
    let oldest: Option<i64> = oldest.query_row([], |row| row.get(0))?;
    Ok(oldest.map(|oldest| oldest as u64))
}

/// The documents that one connection sees. It panics if the disk cannot be read (design 15), because a transition
/// cannot continue without the document.
struct ConnectionReader<'c> {
    connection: &'c Connection,
    revision: Revision,
}

const READABLE: &str = "the store's file can be read";

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
struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
}

impl Readers {
    fn open(file: &Path) -> rusqlite::Result<Readers> {
        let mut idle = Vec::new();
        for _ in 0..READERS {
            let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            idle.push(connection);
        }
        Ok(Readers { idle: Arc::new(Mutex::new(idle)), free: Arc::new(Semaphore::new(READERS)) })
    }

    /// Runs a read in one read transaction, on a thread that may block. If the call is dropped, the read still
    /// completes.
    async fn view<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&ConnectionReader<'_>) -> T + Send + 'static,
    {
        let permit = self.free.clone().acquire_owned().await.expect("the semaphore is never closed");
        let idle = self.idle.clone();
        let work = move || {
            let lock = || idle.lock().expect("no one panics with the idle connections");
            // 1. A read waits for a thread. 2. The controller stops: the call is dropped, and the last handle closes
            // the connections. 3. The read gets its thread; its result is no longer needed.
            let connection = lock().pop()?;
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Deferred);
            let transaction = transaction.expect(READABLE);
            let revision = newest_revision(&transaction).expect(READABLE); // this read fixes the snapshot
            let answer = view(&ConnectionReader { connection: &transaction, revision });
            drop(transaction);
            lock().push(connection);
            drop(permit);
            Some(answer)
        };
        let answer = tokio::task::spawn_blocking(work).await.expect("a view does not panic");
        answer.expect("as many connections as permits, while the store is open")
    }
}

/// Whether the log contains every commit after a revision that is not newer than the newest.
fn covers(newest: &ConnectionReader<'_>, revision: Revision) -> rusqlite::Result<bool> {
    let oldest = oldest_revision(newest.connection)?;
    Ok(revision <= newest.revision && oldest.is_none_or(|oldest| revision + 1 >= oldest))
}

/// Reads the previous documents of all changes after a revision, oldest first.
fn undo_since(connection: &Connection, revision: Revision) -> rusqlite::Result<Vec<Undo>> {
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
fn changes_since(
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

impl Store for Sqlite {
    fn store_generation(&self) -> Uuid {
        self.0.store_generation
    }

    fn newest(&self) -> Revision {
        *self.0.newest.borrow()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.0.readers.view(|newest| view(newest)).await
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        if !self.contains_position(at) {
            return Err(Compacted);
        }
        let earlier = move |newest: &ConnectionReader<'_>| {
            if !covers(newest, at.revision).expect(READABLE) {
                return Err(Compacted);
            }
            let undo = undo_since(newest.connection, at.revision).expect(READABLE);
            Ok(view(&EarlierReader::new(newest, at.revision, undo.into_iter())))
        };
        self.0.readers.view(earlier).await
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(TransitionRequest { transition, decided: None, reply });
        self.send(request, answer).await.map_err(RunError::Failed)?
    }

    async fn apply(&self, txn: Txn) -> Result<Revision, ApplyError> {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(ApplyRequest { txn, conflict: None, reply });
        self.send(request, answer).await.map_err(ApplyError::Failed)?
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        if !self.contains_position(after) {
            return Err(Compacted);
        }
        let changes = move |newest: &ConnectionReader<'_>| {
            if !covers(newest, after.revision).expect(READABLE) {
                return Err(Compacted);
            }
            Ok(changes_since(newest.connection, after.revision, limit).expect(READABLE))
        };
        self.0.readers.view(changes).await
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        let mut newest = self.0.newest.subscribe();
        *newest.wait_for(|newest| *newest > revision).await.expect("self keeps the sender")
    }
}
