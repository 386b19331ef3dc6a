//! The in-memory engine of the store port, for tests and the simulator: an ordered map with its change log.
//!
//! Other transactions may commit between a transition's reads and its commit, and a commit validates *only* the reads
//! that the draft recorded (design 14). A read that is not recorded therefore appears as a lost update.
//!
//! Every call yields at least once, before or after it takes effect, and needs no async runtime. The simulator crashes
//! a caller by dropping its future.

use controller::store::{
    ApplyError, CHANGES_KEPT, CommitChanges, Committed, Compacted, DocumentChange, EarlierReader, Position,
    RunError, Store, Undo, scan_start,
};
use state::documents::draft::{Conflict, Draft, Reader, Revision, StoredDocument, Transaction};
use state::documents::json_text::Text;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use tokio::sync::watch;

/// Retries of one transition after conflicts. Each conflict means that another transaction committed, so this is the
/// number of concurrent writers of one document that a request tolerates.
pub const RETRIES_MAX: usize = 100;

/// One commit in the log: its changes and the previous documents.
#[derive(Clone)]
struct Commit {
    changes: CommitChanges,
    undo: Vec<Undo>,
}

/// The documents at one revision. Clones share the map until one of them changes it.
#[derive(Clone, Default)]
struct Documents {
    revision: Revision,
    by_key: Arc<BTreeMap<String, (Revision, Text)>>,
}

impl Reader for Documents {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.by_key.get_key_value(key).map(stored)
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let below =
            self.by_key.range(scan_start(prefix, after)..).take_while(|(key, _)| key.starts_with(prefix));
        below.filter(|(key, _)| key.as_str() > after).take(limit).map(stored).collect()
    }
}

fn stored((key, (revision, value)): (&String, &(Revision, Text))) -> StoredDocument {
    StoredDocument { key: key.clone(), revision: *revision, value: value.clone() }
}

#[derive(Clone)]
struct Contents {
    documents: Documents,
    log: VecDeque<Commit>,
    changes_kept: u64,
    /// The transactions in commit order; none if they are not recorded.
    recorded: Option<Vec<(Revision, Transaction)>>,
}

struct Shared {
    store_generation: Uuid,
    contents: Mutex<Contents>,
    newest: watch::Sender<Revision>,
    /// How often a snapshot was taken.
    snapshots: AtomicU64,
}

/// A store in memory.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

impl MemoryStore {
    /// Makes an empty store.
    pub fn new(store_generation: Uuid) -> MemoryStore {
        MemoryStore::with_changes_kept(store_generation, CHANGES_KEPT)
    }

    /// Makes an empty store whose change log keeps this many revisions.
    pub fn with_changes_kept(store_generation: Uuid, changes_kept: u64) -> MemoryStore {
        let (documents, log) = (Documents::default(), VecDeque::new());
        MemoryStore::with_contents(
            store_generation,
            Contents { documents, log, changes_kept, recorded: None },
        )
    }

    /// Copies all contents to a new store with its own generation, like a controller that is restored from a backup.
    /// The two stores are independent afterwards.
    pub fn fork(&self, store_generation: Uuid) -> MemoryStore {
        MemoryStore::with_contents(store_generation, self.contents().clone())
    }

    /// Starts to record every committed transaction, for [`replay`].
    pub fn record(&self) {
        self.contents().recorded.get_or_insert_default();
    }

    /// Returns the transactions committed since [`MemoryStore::record`], with their revisions.
    pub fn recorded(&self) -> Vec<(Revision, Transaction)> {
        self.contents().recorded.clone().unwrap_or_default()
    }

    fn with_contents(store_generation: Uuid, contents: Contents) -> MemoryStore {
        let newest = watch::Sender::new(contents.documents.revision);
        MemoryStore(Arc::new(Shared {
            store_generation,
            contents: Mutex::new(contents),
            newest,
            snapshots: AtomicU64::new(0),
        }))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.contents.lock().expect("no caller panics while it holds the contents")
    }

    /// Reads the newest documents without yielding: for the checks of the simulator.
    pub fn read_now<T>(&self, view: impl FnOnce(&dyn Reader) -> T) -> T {
        view(&self.documents())
    }

    /// How often a snapshot was taken: a measure of the work of a caller.
    pub fn snapshots(&self) -> u64 {
        self.0.snapshots.load(Ordering::Relaxed)
    }

    fn documents(&self) -> Documents {
        self.0.snapshots.fetch_add(1, Ordering::Relaxed);
        self.contents().documents.clone()
    }

    fn commit(&self, transaction: &Transaction) -> Result<Revision, Conflict> {
        let mut contents = self.contents();
        let revision = contents.commit(transaction)?;
        self.0.newest.send_if_modified(|newest| std::mem::replace(newest, revision) != revision);
        Ok(revision)
    }
}

impl Contents {
    fn commit(&mut self, transaction: &Transaction) -> Result<Revision, Conflict> {
        transaction.check(&self.documents)?;
        let revision = self.documents.revision + 1;
        let (mut entries, mut undo) = (Vec::new(), Vec::new());
        for (key, value) in &transaction.writes {
            let before = self.documents.get(key);
            if value.is_none() && before.is_none() {
                continue;
            }
            let by_key = Arc::make_mut(&mut self.documents.by_key);
            match value {
                Some(value) => by_key.insert(key.clone(), (revision, value.clone())),
                None => by_key.remove(key),
            };
            entries.push(DocumentChange { key: key.clone(), value: value.clone() });
            undo.push(Undo { key: key.clone(), before });
        }
        if entries.is_empty() {
            return Ok(self.documents.revision);
        }
        self.documents.revision = revision;
        self.log.push_back(Commit { changes: CommitChanges { revision, entries: entries.into() }, undo });
        while self.log.len() as u64 > self.changes_kept {
            self.log.pop_front();
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push((revision, transaction.clone()));
        }
        Ok(revision)
    }

    /// Returns the commits after a revision, if the log still contains all of them.
    fn commits_after(&self, revision: Revision) -> Result<impl Iterator<Item = &Commit>, Compacted> {
        let newest = self.documents.revision;
        let oldest = newest - self.log.len() as u64;
        if !(oldest..=newest).contains(&revision) {
            return Err(Compacted);
        }
        let skipped = usize::try_from(revision - oldest).expect("the log is in memory");
        Ok(self.log.range(skipped..))
    }
}

/// Yields to the other tasks once.
fn yield_once() -> impl Future<Output = ()> + Send {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

impl Store for MemoryStore {
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
        yield_once().await;
        view(&self.documents())
    }

    async fn read_since<T, F>(&self, after: Position, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static,
    {
        yield_once().await;
        let (newest, changed) = {
            let contents = self.contents();
            let is_own = after.store_generation == self.store_generation();
            let commits = is_own.then(|| contents.commits_after(after.revision).ok()).flatten();
            let keys = |commit: &Commit| commit.changes.keys().map(str::to_owned).collect::<Vec<_>>();
            (contents.documents.clone(), commits.map(|commits| commits.flat_map(keys).collect()))
        };
        (view(&newest, changed), Vec::new())
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        yield_once().await;
        if at.store_generation != self.store_generation() {
            return Err(Compacted);
        }
        let (newest, undo) = {
            let contents = self.contents();
            let undo: Vec<Undo> =
                contents.commits_after(at.revision)?.flat_map(|commit| commit.undo.iter().cloned()).collect();
            (contents.documents.clone(), undo)
        };
        Ok(view(&EarlierReader::new(&newest, at.revision, undo.into_iter())))
    }

    async fn read_after<T, F>(&self, after: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static,
    {
        yield_once().await;
        if after.store_generation != self.store_generation() {
            return Err(Compacted);
        }
        let (newest, commits) = {
            let contents = self.contents();
            let commits = contents.commits_after(after.revision)?.map(|commit| commit.changes.clone());
            (contents.documents.clone(), commits.collect::<Vec<_>>())
        };
        Ok(view(&newest, &commits))
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        let mut retries = 0;
        loop {
            let (decided, read) = {
                let documents = self.documents();
                let mut draft = Draft::new(&documents);
                let decided = match transition(&mut draft) {
                    Ok(answer) => {
                        draft.finish().map(|transaction| (answer, transaction)).map_err(RunError::TooLarge)
                    }
                    Err(refusal) => Err(RunError::Refused(refusal)),
                };
                (decided, documents.revision)
            };
            yield_once().await; // other transactions may commit here
            let (answer, transaction) = decided?;
            if transaction.writes.is_empty() {
                return Ok(Committed { answer, revision: read });
            }
            match self.commit(&transaction) {
                Ok(revision) => {
                    yield_once().await; // a caller that crashes here does not receive the result of its commit
                    return Ok(Committed { answer, revision });
                }
                Err(conflict) if retries == RETRIES_MAX => return Err(RunError::Busy(conflict)),
                Err(_) => retries += 1,
            }
        }
    }

    async fn apply(&self, transaction: Transaction) -> Result<Revision, ApplyError> {
        yield_once().await;
        let revision = self.commit(&transaction).map_err(ApplyError::Conflict)?;
        yield_once().await;
        Ok(revision)
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        yield_once().await;
        if after.store_generation != self.store_generation() {
            return Err(Compacted);
        }
        let contents = self.contents();
        let commits = contents.commits_after(after.revision)?;
        Ok(commits.take(limit).map(|commit| commit.changes.clone()).collect())
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        let mut newest = self.0.newest.subscribe();
        *newest.wait_for(|newest| *newest > revision).await.expect("self keeps the sender")
    }
}

/// The serialisability check (design 8): applies the transactions one after the other to an empty store. Each must find
/// exactly the documents that it recorded as read. Returns the first one that does not, with its conflict.
pub fn replay(recorded: &[(Revision, Transaction)]) -> Result<(), (Revision, Conflict)> {
    let mut contents =
        Contents { documents: Documents::default(), log: VecDeque::new(), changes_kept: 1, recorded: None };
    for (revision, transaction) in recorded {
        let replayed = contents.commit(transaction).map_err(|conflict| (*revision, conflict))?;
        assert_eq!(replayed, *revision, "recording began with the empty store");
    }
    Ok(())
}
