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
//! The folder also contains `store.lock` (the process that has the store open) and `generation.yaml` (the store
//! generation and a revision that it has reached). With the latter, [`Sqlite::open`] refuses a database that is
//! missing, empty, truncated, of another store generation, older than the recorded revision, or copied into the folder.
//!
//! Every row has a checksum. A damaged document fails the requests that need it, and no others; their error names it
//! (`damaged_documents`).

mod checksum;
mod damaged_documents;
mod generation_file;
pub mod inspection;
mod limit_probe;
mod open;
mod read_pool;
mod reads;
mod recent;
mod writer;

pub use generation_file::GenerationFile;
pub use open::{DATABASE, LOCK, OpenError, Options, VERSION};

use super::usage::StoreUsage;
use super::{
    ApplyError, CommitChanges, Committed, Compacted, EarlierReader, Position, RunError, Store, StoreError,
    unavailable,
};
use api::text::fault::not_started;
use limit_probe::LimitProbe;
use open::OpenStore;
use read_pool::ReadPool;
use reads::{ConnectionReader, change_bytes, changed_since, changes_since, covers, undo_since, usage};
use recent::RecentCommits;
use state::documents::draft::{Draft, Reader, Revision, Transaction};
use state::terms::names::Uuid;
use state::terms::write_failure::WriteFailure;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot, watch};
use writer::{
    ApplyRequest, BATCH_MAX, ChangeLog, LastFailure, QUEUE_MAX, TransitionRequest, WriteRequest, Writer,
};

/// The most commits that [`Store::read_after`] reads from the change log: two batches of the writer, one that is being
/// committed and one that is being published.
const UNPUBLISHED_MAX: u64 = 2 * BATCH_MAX as u64;

/// A store in a folder. Dropping the last handle closes it: it waits for the pending requests, then releases the lock.
#[derive(Clone)]
pub struct Sqlite(Arc<Shared>);

struct Shared {
    store_generation: Uuid,
    /// None while closing.
    requests: Option<mpsc::Sender<Box<dyn WriteRequest>>>,
    writer: Option<JoinHandle<()>>,
    readers: ReadPool,
    recent: Arc<RecentCommits>,
    newest: Arc<watch::Sender<Revision>>,
    broken: Arc<watch::Sender<Option<String>>>,
    failure: LastFailure,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // First, so that the writer closes the last connection, which merges the WAL into the database file.
        self.readers.close();
        self.requests = None;
        // A transition that owns the last handle is dropped by the writer, which cannot wait for itself.
        if let Some(writer) = self.writer.take().filter(|w| w.thread().id() != std::thread::current().id()) {
            let _ = writer.join(); // an error is a panic, which its callers have already received
        }
    }
}

impl Sqlite {
    /// Opens the store in an existing folder; creates the database if there is none.
    pub fn open(folder: &Path, options: Options) -> Result<Sqlite, OpenError> {
        let OpenStore {
            lock,
            file,
            database_file,
            connection,
            generation_file,
            store_generation,
            newest,
            damaged_documents,
        } = open::open(folder, &options)?;
        let failed = |why: String| OpenError::Failed { folder: folder.to_owned(), why };
        let log = change_bytes(&connection).map_err(|e| failed(e.to_string()))?;
        let damaged_documents = Arc::new(damaged_documents);
        let readers = ReadPool::open(&file, damaged_documents.clone()).map_err(failed)?;

        let (newest, recent) = (Arc::new(watch::Sender::new(newest)), Arc::<RecentCommits>::default());
        let (broken, failure) = (Arc::new(watch::Sender::new(None)), LastFailure::default());
        let (requests, waiting) = mpsc::channel(QUEUE_MAX);
        let writer = Writer {
            connection,
            database_file,
            generation_file,
            limit_probe: LimitProbe::new(file.clone()),
            _lock: lock,
            damaged_documents,
            log: ChangeLog::new(log, options.changes_kept, options.changes_bytes_max),
            commits: 0,
            recent: recent.clone(),
            newest: newest.clone(),
            broken: broken.clone(),
            failure: failure.clone(),
        };
        let thread = std::thread::Builder::new().name("store".to_owned());
        let writer = thread.spawn(move || writer.serve(waiting));
        let writer =
            writer.map_err(|error| failed(format!("cannot start a thread: {}", not_started(&error))))?;
        let (requests, writer) = (Some(requests), Some(writer));
        Ok(Sqlite(Arc::new(Shared {
            store_generation,
            requests,
            writer,
            readers,
            recent,
            newest,
            broken,
            failure,
        })))
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

    fn is_of_this_generation(&self, position: Position) -> bool {
        position.store_generation == self.0.store_generation
    }
}

impl Store for Sqlite {
    fn store_generation(&self) -> Uuid {
        self.0.store_generation
    }

    fn newest_revision(&self) -> Revision {
        *self.0.newest.borrow()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let (value, damaged) = self.0.readers.read(|newest| view(newest)).await;
        intact(value, damaged).await
    }

    async fn read_available<T, F>(&self, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.0.readers.read(|newest| view(newest)).await
    }

    async fn read_since<T, F>(&self, after: Position, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static,
    {
        let after = self.is_of_this_generation(after).then_some(after.revision);
        let view = move |newest: &ConnectionReader<'_>| {
            let changed = after.and_then(|after| changed_since(newest, after));
            view(newest, changed)
        };
        self.0.readers.read(view).await
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        if !self.is_of_this_generation(at) {
            return Err(Compacted);
        }
        let earlier = move |newest: &ConnectionReader<'_>| {
            // A log that cannot be read is treated like one that was compacted.
            if !covers(newest, at.revision).unwrap_or(false) {
                return Err(Compacted);
            }
            let Ok(Some(undo)) = undo_since(newest.connection, at.revision) else { return Err(Compacted) };
            Ok(view(&EarlierReader::new(newest, at.revision, undo.into_iter())))
        };
        let (value, damaged) = self.0.readers.read(earlier).await;
        intact(value, damaged).await
    }

    async fn read_after<T, F>(&self, after: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static,
    {
        if !self.is_of_this_generation(after) {
            return Err(Compacted);
        }
        let recent = self.0.recent.clone();
        let following = move |newest: &ConnectionReader<'_>| {
            let mut commits = recent.up_to(after.revision, newest.revision);
            let reached = commits.last().map_or(after.revision, |last| last.revision);
            // 1. The writer commits a batch. 2. This snapshot has it. 3. The writer adds it to the newest commits.
            if reached != newest.revision {
                let missing = newest.revision.checked_sub(reached).ok_or(Compacted)?;
                if missing > UNPUBLISHED_MAX || !covers(newest, reached).unwrap_or(false) {
                    return Err(Compacted);
                }
                let rest = changes_since(newest.connection, reached, UNPUBLISHED_MAX as usize);
                commits.extend(rest.ok().flatten().ok_or(Compacted)?);
            }
            Ok(view(newest, &commits))
        };
        let (value, damaged) = self.0.readers.read(following).await;
        intact(value, damaged).await
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

    async fn apply(&self, transaction: Transaction) -> Result<Revision, ApplyError> {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(ApplyRequest { transaction, conflict: None, reply });
        self.send(request, answer).await.map_err(ApplyError::Failed)?
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        if !self.is_of_this_generation(after) {
            return Err(Compacted);
        }
        if let Some(changes) = self.0.recent.after(after.revision, self.newest_revision(), limit) {
            return Ok(changes);
        }
        let changes = move |newest: &ConnectionReader<'_>| {
            if !covers(newest, after.revision).unwrap_or(false) {
                return Err(Compacted);
            }
            changes_since(newest.connection, after.revision, limit).ok().flatten().ok_or(Compacted)
        };
        let (value, damaged) = self.0.readers.read(changes).await;
        intact(value, damaged).await
    }

    async fn usage(&self) -> StoreUsage {
        self.0.readers.read(|newest| usage(newest.connection)).await.0
    }

    fn write_failure(&self) -> Option<WriteFailure> {
        self.0.failure.get()
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        let mut newest = self.0.newest.subscribe();
        *newest.wait_for(|newest| *newest > revision).await.expect("self keeps the sender")
    }
}

/// Returns the value of a view. If the view read damaged documents, the request of the caller ends.
async fn intact<T>(value: T, damaged: Vec<String>) -> T {
    match damaged.is_empty() {
        true => value,
        false => unavailable::damaged(damaged).await,
    }
}
