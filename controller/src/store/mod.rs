//! The store port (design 8): JSON documents under keys, each with the revision of the commit that last wrote it.
//!
//! * Transitions run against the newest documents. Their reads are validated at commit, so committed transactions are
//!   strictly serialisable and revisions strictly increase (I45).
//! * Every commit is one revision and one entry of a bounded change log, in order and including deletions. A reader
//!   whose position is not in the log, or belongs to another store generation, gets [`Compacted`] and must read all
//!   documents again (I46).
//! * Results and refusals are returned only after everything they depend on is synced.
//! * A document that is damaged on disk is never served. A request that reads one fails with an error that names it,
//!   since nothing may be concluded from its absence; [`Store::read_available`] reads the other documents.
//!
//! A transition never waits, reads no clock and has no side effects, because an engine may run it more than once.
//! The engines of the controller are `sqlite` and `etcd` (`engine` is the one that is open); tests and the simulator have one in memory (`tests/support/`).
//! Revisions strictly increase. They have no gaps in `sqlite`, and gaps in `etcd`.

pub mod engine;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod files;
pub mod leader_leases;
pub mod outage;
pub mod shared_presence;
pub mod sqlite;
pub mod unavailable;
pub mod usage;

use files::StoreFiles;
use leader_leases::StoreLeases;
use outage::Outage;
use shared_presence::StoreStatements;
use state::documents::draft::{Conflict, Draft, Reader, Revision, StoredDocument, Transaction};
use state::documents::json_text::Text;
use state::terms::names::Uuid;
pub use state::terms::position::{Committed, Position};
use state::terms::refusal::transaction::TransactionRefusal;
use state::terms::store_engine::StoreEngine;
use state::terms::write_failure::WriteFailure;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use usage::StoreUsage;

/// Revisions in the change log. The commit of a hook writes some four documents of 1 KiB, and the log contains each
/// twice (new and previous): 10,000 × 4 × 2 KiB = 80 MiB. At 50 commits per second the log covers 200 s, several
/// times the pause of an agent that reconnects.
pub const CHANGES_KEPT: u64 = 10_000;

/// Bytes in the change log: 128 MiB. The largest commit takes 11 MiB (5.5 MiB of new documents, and as much of previous
/// ones), so this is at least 11 revisions; with etcd, which accepts 1.5 MiB, at least 50.
pub const CHANGES_BYTES_MAX: u64 = 128 << 20;

/// The change of one document by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// The document's key.
    pub key: String,
    /// The new value; none if the document was deleted.
    pub value: Option<Text>,
}

/// All changes of one commit, in key order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitChanges {
    /// The revision of the commit.
    pub revision: Revision,
    /// One entry per document.
    pub entries: Arc<[DocumentChange]>,
}

impl CommitChanges {
    /// Returns the keys of the documents that the commit wrote or deleted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }
}

/// The change log cannot continue from the requested position: the position is too old, in the future, or of another
/// store generation. The reader must read all documents again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted;

/// A failure of the store itself, independent of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was changed. The same request succeeds once there is space.
    #[error("cannot write to the store: the disk is full; nothing was changed")]
    Full,
    /// Nothing was changed: a file could not be opened, since the process or the host has no descriptor left. The same
    /// request succeeds once there is one.
    #[error("cannot open a file of the store: {0}; nothing was changed")]
    CannotOpen(String),
    /// The request needs documents that are damaged on disk: their names. Nothing was changed.
    #[error("{}; nothing was changed", unavailable::damaged_text(.0))]
    Damaged(Vec<String>),
    /// The store is on other hosts and cannot be used at the moment. Nothing was changed.
    #[error("cannot use the store: {0}; nothing was changed")]
    Unavailable(Outage),
    /// It is unknown whether the change was made. The store rejects all further requests: the process must exit and
    /// restart from the state on disk.
    #[error("the store is broken: {0}")]
    Broken(String),
}

/// Why [`Store::run`] committed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError<R> {
    /// The transition refused, based on a synced revision.
    Refused(R),
    /// The transaction exceeds a size limit.
    TooLarge(TransactionRefusal),
    /// Repeated attempts conflicted with other transactions; the last conflict. The request may be repeated; it must
    /// not be shown as a refusal. SQLite has a single writer, so it never returns this; etcd does if the same documents
    /// are changed by other controllers all the time.
    Busy(Conflict),
    /// The store failed.
    Failed(StoreError),
}

impl<R> RunError<R> {
    /// Converts the refusal.
    pub fn map_refusal<Q>(self, convert: impl FnOnce(R) -> Q) -> RunError<Q> {
        match self {
            RunError::Refused(refusal) => RunError::Refused(convert(refusal)),
            RunError::TooLarge(bound) => RunError::TooLarge(bound),
            RunError::Busy(conflict) => RunError::Busy(conflict),
            RunError::Failed(error) => RunError::Failed(error),
        }
    }
}

/// Why [`Store::apply`] committed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// A precondition of the transaction does not hold.
    Conflict(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// A store engine. Clones are handles to the same store.
pub trait Store: Clone + Send + Sync + 'static {
    /// Returns the store generation: the id of the line of commits that this store continues. A restored backup starts
    /// a new one. It is constant while the store is open.
    fn store_generation(&self) -> Uuid;

    /// Returns the newest synced revision; 0 before the first commit.
    fn newest_revision(&self) -> Revision;

    /// Like [`Store::newest_revision`], and at least that of every commit that was answered before the call, also by another
    /// process. During an outage it ends its request, or waits. An agent must learn nothing from a controller that
    /// has lost its store.
    fn confirmed_newest(&self) -> impl Future<Output = Revision> + Send {
        async { self.newest_revision() }
    }

    /// Calls `view` with a consistent snapshot of the newest revision.
    fn read<T, F>(&self, view: F) -> impl Future<Output = T> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static;

    /// Like [`Store::read`], but damaged documents appear as absent. Also returns the names of those that the view
    /// read. Must not be used for the view of an agent, in which absence has a meaning.
    fn read_available<T, F>(&self, view: F) -> impl Future<Output = (T, Vec<String>)> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        async { (self.read(view).await, Vec::new()) }
    }

    /// Like [`Store::read_available`]. `view` also receives the keys of all documents that were changed after a
    /// position, up to the revision of the snapshot; none if they are not known.
    fn read_since<T, F>(&self, after: Position, view: F) -> impl Future<Output = (T, Vec<String>)> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static;

    /// Calls `view` with a consistent snapshot of an older revision, if the change log still reaches it.
    fn read_at<T, F>(&self, at: Position, view: F) -> impl Future<Output = Result<T, Compacted>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static;

    /// Calls `view` with a consistent snapshot of the newest revision and the commits after a position up to that
    /// revision, oldest first, so that a reader that is behind catches up without an undo of what it has missed.
    /// [`Compacted`] also if the commits are no longer in memory: to read the newest documents then costs less.
    fn read_after<T, F>(&self, after: Position, view: F) -> impl Future<Output = Result<T, Compacted>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static;

    /// Runs a transition against the newest documents and commits its writes. If another transaction has changed what
    /// it read, the transition runs again. A refusal commits nothing. A call that is dropped may still take effect;
    /// the transition, with all that it owns, is dropped after that.
    fn run<A, R, F>(&self, transition: F) -> impl Future<Output = Result<Committed<A>, RunError<R>>> + Send
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static;

    /// Commits a finished transaction if its preconditions hold. Deleting an absent document is no change. A
    /// transaction without changes commits nothing and returns the newest revision.
    fn apply(&self, transaction: Transaction) -> impl Future<Output = Result<Revision, ApplyError>> + Send;

    /// Returns the commits after a position, oldest first, at most `limit`.
    fn changes_after(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<CommitChanges>, Compacted>> + Send;

    /// Returns the bytes of the files and of the documents of the store.
    fn usage(&self) -> impl Future<Output = StoreUsage> + Send {
        self.read(|reader| {
            let mut usage = StoreUsage::default();
            for stored in reader.scan("", "", usize::MAX) {
                usage.add(&stored.key, stored.value.len() as u64);
            }
            usage
        })
    }

    /// Returns the files that the store keeps for all controllers; none if they are in the data folder of its only one.
    fn files(&self) -> Option<StoreFiles> {
        None
    }

    /// Returns the leases of leaders that the store keeps for all controllers; none if its only one has them in memory.
    fn leader_leases(&self) -> Option<StoreLeases> {
        None
    }

    /// Returns what controllers that share the store state about agents; none if there is only one.
    fn statements(&self) -> Option<StoreStatements> {
        None
    }

    /// Returns why the last change was not written; none if it was. Not whether the store is broken: the process ends then.
    fn write_failure(&self) -> Option<WriteFailure> {
        None
    }

    /// Waits until the newest revision is greater than `revision`, and returns the newest. Returns at once if it
    /// already is greater.
    fn wait_past(&self, revision: Revision) -> impl Future<Output = Revision> + Send;
}

/// The previous state of a document that a commit changed.
#[derive(Clone, Debug)]
pub struct Undo {
    /// The document's key.
    pub key: String,
    /// The document before the commit; none if there was none.
    pub before: Option<StoredDocument>,
}

/// The documents at an older revision: the newest documents with all later changes undone.
pub struct EarlierReader<'r> {
    newest: &'r dyn Reader,
    revision: Revision,
    /// By key: the documents that were changed since that revision, as they were at that revision.
    before: BTreeMap<String, Option<StoredDocument>>,
}

impl<'r> EarlierReader<'r> {
    /// The documents at `revision`. `undo` contains every change since then, oldest first.
    pub fn new(
        newest: &'r dyn Reader,
        revision: Revision,
        undo: impl Iterator<Item = Undo>,
    ) -> EarlierReader<'r> {
        let mut earlier = BTreeMap::new();
        for Undo { key, before } in undo {
            earlier.entry(key).or_insert(before); // the first change after `revision` has the value at `revision`
        }
        EarlierReader { newest, revision, before: earlier }
    }
}

impl Reader for EarlierReader<'_> {
    fn engine(&self) -> StoreEngine {
        self.newest.engine()
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn record_damage(&self, key: &str, why: &str) {
        self.newest.record_damage(key, why);
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.before.get(key).cloned().unwrap_or_else(|| self.newest.get(key))
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        // At most `before.len()` of the newest documents are excluded, so this many are always sufficient.
        let newest = self.newest.scan(prefix, after, limit.saturating_add(self.before.len()));
        let unchanged = newest.into_iter().filter(|stored| !self.before.contains_key(&stored.key));
        let changed =
            self.before.range(scan_start(prefix, after)..).take_while(|(key, _)| key.starts_with(prefix));
        let changed =
            changed.filter(|(key, _)| key.as_str() > after).filter_map(|(_, stored)| stored.clone());
        let mut all: Vec<StoredDocument> = unchanged.chain(changed).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.truncate(limit);
        all
    }
}

/// Returns the key at which a scan starts: `after` (excluded by the caller), or the prefix if it sorts later.
pub fn scan_start(prefix: &str, after: &str) -> String {
    prefix.max(after).to_owned()
}
