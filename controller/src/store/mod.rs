//! The store port (design 8): JSON documents under keys, each with the revision of the commit that last wrote it.
//!
//! * Transitions run against the newest documents; what they read is checked again when they commit, so committed
//!   transactions are strictly serialisable and revisions strictly increase (I45).
//! * Every commit is one revision and appears as one entry of a bounded change log, in order, with deletions. Who
//!   asks for more than the log holds, or for another history, is told so and reads everything again (I46).
//! * Answers and refusals leave after everything they rest on is synced.
//!
//! A transition never waits, has no clock and no side effect: an engine may run it more than once.

pub mod memory;
pub mod sqlite;

use state::documents::draft::{Conflict, Draft, Reader, Revision, StoredDocument, TooLarge, Txn};
use state::documents::json_text::Text;
use state::terms::names::Uuid;
pub use state::terms::position::Position;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// How often one transition is run again because others changed what it had read. Each conflict means that somebody
/// else got through, so this is how many others may overtake one request: a hundred at once on the same document.
pub const RETRIES_MAX: usize = 100;

/// Revisions the change log keeps. A hook's commit writes some four documents of 1 KiB, and the log has each twice
/// (new and previous): 10,000 × 4 × 2 KiB = 80 MiB. At 50 commits a second it covers 200 s, several times the pause of an
/// agent that reconnects.
pub const CHANGES_KEPT: u64 = 10_000;

/// One document as a commit left it; no value: removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    pub key: String,
    pub value: Option<Text>,
}

/// All that one commit changed, in key order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitChanges {
    pub revision: Revision,
    pub entries: Arc<[DocumentChange]>,
}

impl CommitChanges {
    /// The keys of the documents it wrote or removed.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }
}

/// The log does not reach from the position asked for to now: it is too old, of another history, or in the future.
/// The reader starts over with everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted;

/// What a transition answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<A> {
    pub answer: A,
    /// The commit's revision; if nothing was written, the revision that was read.
    pub revision: Revision,
}

/// Why nothing was committed for reasons outside of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing changed; the same request works once there is space.
    #[error("the disk of the store is full: nothing was changed; free some space and try again")]
    Full,
    /// Whether the change was made is unknown. The store answers nothing else from now on: the process is to end
    /// and start again from what is on disk.
    #[error("the store is broken: {0}")]
    Broken(String),
}

/// Why [`Store::run`] committed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError<R> {
    /// The transition said no; it was right as of a synced revision.
    Refused(R),
    TooLarge(TooLarge),
    /// Overtaken [`RETRIES_MAX`] times; the last conflict. To be tried again later, never shown as a refusal.
    Busy(Conflict),
    Failed(StoreError),
}

/// Why [`Store::apply`] committed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    Conflict(Conflict),
    Failed(StoreError),
}

/// An engine. Clones are handles to the same store.
pub trait Store: Clone + Send + Sync + 'static {
    /// Names the one line of commits that this store continues; fixed while it is open.
    fn store_generation(&self) -> Uuid;

    /// The newest synced revision; 0 before the first commit.
    fn newest(&self) -> Revision;

    /// Shows all documents as of one revision, the newest when the call is served.
    fn read<T, F>(&self, view: F) -> impl Future<Output = T> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static;

    /// Shows all documents as of an older revision, as far back as the change log reaches.
    fn read_at<T, F>(&self, at: Position, view: F) -> impl Future<Output = Result<T, Compacted>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static;

    /// Runs a transition against the newest documents and commits what it wrote, if what it read still holds; else
    /// runs it again. A refusal commits nothing, nor does a transition that writes nothing. A dropped call may still
    /// take effect.
    fn run<A, R, F>(&self, transition: F) -> impl Future<Output = Result<Committed<A>, RunError<R>>> + Send
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static;

    /// Commits a finished transaction if its preconditions hold now. A removal of what is absent is no change; a
    /// transaction without change commits nothing and answers the newest revision.
    fn apply(&self, txn: Txn) -> impl Future<Output = Result<Revision, ApplyError>> + Send;

    /// The commits after a position, oldest first, at most `limit` of them.
    fn changes_after(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<CommitChanges>, Compacted>> + Send;

    /// ForceTimers until the newest revision is greater; answers the newest. Never skips: what is already newer is enough.
    fn wait_past(&self, revision: Revision) -> impl Future<Output = Revision> + Send;
}

/// What one commit did to a document: for the change log.
#[derive(Clone, Debug)]
struct Undo {
    key: String,
    before: Option<StoredDocument>,
}

/// The documents as of an older revision: the newest, with what changed since taken back.
struct EarlierReader<'r> {
    newest: &'r dyn Reader,
    revision: Revision,
    /// What each key changed since then held at that revision.
    before: BTreeMap<String, Option<StoredDocument>>,
}

impl<'r> EarlierReader<'r> {
    /// `undo`: everything done since `revision`, oldest first.
    fn new(
        newest: &'r dyn Reader,
        revision: Revision,
        undo: impl Iterator<Item = Undo>,
    ) -> EarlierReader<'r> {
        let mut before = BTreeMap::new();
        for Undo { key, before: held } in undo {
            before.entry(key).or_insert(held); // the first change since then has what was there at that time
        }
        EarlierReader { newest, revision, before }
    }
}

impl Reader for EarlierReader<'_> {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.before.get(key).cloned().unwrap_or_else(|| self.newest.get(key))
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        // At most `before` of the newest documents are to be left out, so this many always suffice.
        let newest = self.newest.scan(prefix, after, limit.saturating_add(self.before.len()));
        let kept = newest.into_iter().filter(|stored| !self.before.contains_key(&stored.key));
        let held = self.before.range(scan_start(prefix, after)..).take_while(|(key, _)| key.starts_with(prefix));
        let held = held.filter(|(key, _)| key.as_str() > after).filter_map(|(_, stored)| stored.clone());
        let mut all: Vec<StoredDocument> = kept.chain(held).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.truncate(limit);
        all
    }
}

/// Where a scan begins: at `after`, itself to be left out, unless the prefix begins later.
fn scan_start(prefix: &str, after: &str) -> String {
    prefix.max(after).to_owned()
}
