//! The etcd engine of the store (design 8): any number of controllers in front of one etcd, none of them special.
//!
//! Each handle has a `mirror` of all documents in memory, always at one revision, which `feed` keeps up to date with one
//! watch. A transition runs on the mirror; `commit` compares everything that it read and writes everything that it wrote
//! in one transaction of etcd, and runs it again after a conflict. What was read is compared at the commit itself, so
//! committed transactions are strictly serialisable however old the mirror is (I45); a result without a commit is
//! returned only after `fresh` has shown that the mirror had every commit that was answered before.
//!
//! A revision is one of etcd: the revisions of this store strictly increase and have gaps, since etcd counts the writes
//! of all its users. `layout` has the keys, `client` and `messages` the protocol, `open` the checks of a start, `health`
//! what is reported during an outage ([`Outage`]).

mod client;
mod commit;
mod feed;
mod fresh;
mod health;
mod layout;
mod messages;
mod mirror;
mod open;

pub use client::Tls;
pub use open::{OpenError, Options, RecordedStore, parse_address};

use super::outage::Outage;
use super::unavailable::{self, Unavailable};
use super::{
    ApplyError, CommitChanges, Committed, Compacted, EarlierReader, Position, RunError, Store, StoreError,
};
use client::Client;
use fresh::NewestReads;
use health::Health;
use layout::Layout;
use mirror::{Documents, Finding, Mirror, SnapshotReader};
use state::documents::draft::{Draft, Reader, Revision, Transaction};
use state::terms::names::Uuid;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{AbortHandle, JoinError};

/// Views that run at the same time, on threads of their own: as many as the embedded engine has.
const READERS: usize = 4;
/// How long the watch may take to deliver what etcd has committed, until it is replaced by another one.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the other watch may take, with a connection to another member and a list of all documents.
const NEXT_WATCH_TIMEOUT: Duration = Duration::from_secs(7);

/// A store in etcd. Clones are handles to the same mirror; it ends with the last one.
#[derive(Clone)]
pub struct Etcd(Arc<Handle>);

struct Handle {
    core: Arc<Core>,
    feed: AbortHandle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.feed.abort();
    }
}

/// What the feed and all requests share.
struct Core {
    layout: Layout,
    /// For reads and transactions.
    client: Client,
    /// For lists and the watch: an answer never waits behind many events.
    watcher: Client,
    /// The name of this handle, new for each process.
    handle: String,
    /// The fence of this handle, see `commit`.
    fence_name: String,
    /// Whether all controllers share one fence, so that the last one that was started is the only one that commits.
    is_exclusive: bool,
    store_generation: Uuid,
    /// The revision of the store record.
    store_revision: Revision,
    /// The id of the cluster.
    cluster: u64,
    mirror: Mutex<Mirror>,
    newest: watch::Sender<Revision>,
    reached: watch::Sender<Revision>,
    broken: watch::Sender<Option<StoreError>>,
    /// Wakes the feed: its watch does not deliver what etcd has committed.
    stale_watch: Notify,
    health: Health,
    /// The number of the last transaction.
    transactions: AtomicU64,
    /// The revision of the fence of this handle.
    fence: Mutex<Revision>,
    /// Held while the fence is raised.
    raising: tokio::sync::Mutex<()>,
    /// Held by a transition that has met a conflict, so that those of one handle do not meet each other again.
    turns: tokio::sync::Mutex<()>,
    newest_reads: NewestReads,
    readers: Arc<Semaphore>,
}

impl Core {
    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().expect("no holder panics")
    }

    fn snapshot(&self) -> Documents {
        self.mirror().snapshot()
    }

    fn reached(&self) -> Revision {
        *self.reached.borrow()
    }

    /// Changes the mirror, and then publishes its revision.
    fn update<T>(&self, change: impl FnOnce(&mut Mirror) -> T) -> T {
        let (changed, newest, reached) = {
            let mut mirror = self.mirror();
            let changed = change(&mut mirror);
            let Documents { revision, reached, .. } = mirror.snapshot();
            (changed, revision, reached)
        };
        self.newest.send_if_modified(|before| std::mem::replace(before, newest) != newest);
        self.reached.send_if_modified(|before| std::mem::replace(before, reached) != reached);
        changed
    }

    /// Rejects all further requests: the process must exit. Returns the error of the request that has noticed it.
    fn fail(&self, error: StoreError) -> StoreError {
        tracing::error!("{error}");
        self.broken.send_replace(Some(error.clone()));
        error
    }

    fn require_unbroken(&self) -> Result<(), StoreError> {
        self.broken.borrow().clone().map_or(Ok(()), Err)
    }

    /// Whether the keys of the store prove that this handle must end: another store generation has started, or another
    /// controller has taken over.
    fn is_broken_by(&self, findings: Vec<Finding>) -> bool {
        let error = findings.into_iter().find_map(|finding| match finding {
            Finding::Store(Some(revision)) if revision == self.store_revision => None,
            Finding::Store(_) => Some(self.other_generation()),
            Finding::Fence(name, Some(holder)) if self.is_exclusive && name == self.fence_name => {
                (holder != self.handle).then(|| self.taken_over())
            }
            Finding::Fence(..) => None,
        });
        error.map(|error| self.fail(error)).is_some()
    }

    fn other_generation(&self) -> StoreError {
        let prefix = self.layout.prefix();
        StoreError::Broken(format!("another store generation was started below the prefix {prefix} of etcd"))
    }

    fn taken_over(&self) -> StoreError {
        StoreError::TakenOver(format!("the prefix {} of etcd", self.layout.prefix()))
    }

    /// Waits until the mirror has this revision.
    async fn wait_reached(&self, revision: Revision) -> Result<(), Outage> {
        let mut reached = self.reached.subscribe();
        for patience in [WATCH_TIMEOUT, NEXT_WATCH_TIMEOUT] {
            let waited =
                tokio::time::timeout(patience, reached.wait_for(|reached| *reached >= revision)).await;
            if waited.is_ok() {
                return Ok(());
            }
            self.stale_watch.notify_waiters();
        }
        let outage = Outage::Behind { reached: self.reached(), newest: revision };
        self.health.note_outage(&outage);
        Err(outage)
    }

    /// Waits until the mirror has every commit that was answered before the call. Returns the newest of them.
    async fn fresh(&self) -> Result<Revision, Outage> {
        let newest = self.newest_reads.read(self).await?;
        self.wait_reached(newest).await?;
        Ok(newest)
    }

    /// Like [`Core::fresh`] for a reader without an error: ends its request during an outage, or tries again.
    async fn fresh_or_retry(&self) {
        while let Err(outage) = self.fresh().await {
            unavailable::retry(Unavailable::Outage(outage)).await;
        }
    }

    /// Runs a view on a thread of its own. Also returns the damaged documents that it read.
    async fn view<T, F>(&self, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce() -> (T, Vec<String>) + Send + 'static,
    {
        let permit = self.readers.clone().acquire_owned().await.expect("the semaphore is never closed");
        let viewed = tokio::task::spawn_blocking(move || {
            let viewed = view();
            drop(permit);
            viewed
        });
        output(viewed.await)
    }

    /// Whether a position is of this store generation, and not in the future. A position beyond the mirror is one that
    /// another controller has answered with.
    async fn revision_of(&self, position: Position) -> Result<Revision, Compacted> {
        if position.store_generation != self.store_generation {
            return Err(Compacted);
        }
        if position.revision > self.reached() {
            self.fresh_or_retry().await;
        }
        Ok(position.revision)
    }
}

/// Returns the output of a task. A panic in it is one of its caller.
fn output<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => panic!("nothing cancels the task: {error}"),
    })
}

/// Returns the value of a view. If the view read damaged documents, the request of the caller ends.
async fn intact<T>((value, damaged): (T, Vec<String>)) -> T {
    match damaged.is_empty() {
        true => value,
        false => unavailable::damaged(damaged).await,
    }
}

impl Etcd {
    /// Waits until the store is broken, or another controller has taken over, and returns the reason. The process must
    /// then exit.
    pub async fn broken(&self) -> StoreError {
        let mut broken = self.0.core.broken.subscribe();
        let error = broken.wait_for(Option::is_some).await.expect("self keeps the sender");
        error.clone().expect("it was waited for")
    }

    /// Returns why etcd cannot be used at the moment; none if it can.
    pub fn outage(&self) -> Option<Outage> {
        self.0.core.health.outage()
    }

    /// Returns what the data folder of the controller must record, so that another etcd is never taken for this one.
    pub fn recorded(&self) -> RecordedStore {
        let core = &self.0.core;
        RecordedStore {
            cluster: format!("{:x}", core.cluster),
            store_generation: core.store_generation,
            revision: self.newest_revision(),
        }
    }
}

impl Store for Etcd {
    fn store_generation(&self) -> Uuid {
        self.0.core.store_generation
    }

    fn newest_revision(&self) -> Revision {
        *self.0.core.newest.borrow()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        intact(self.read_available(view).await).await
    }

    async fn read_available<T, F>(&self, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let core = &self.0.core;
        core.fresh_or_retry().await;
        let snapshot = core.snapshot();
        core.view(move || {
            let reader = SnapshotReader::new(&snapshot);
            (view(&reader), reader.damaged())
        })
        .await
    }

    async fn read_since<T, F>(&self, after: Position, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static,
    {
        let core = &self.0.core;
        core.fresh_or_retry().await;
        let (snapshot, changed) = {
            let mirror = core.mirror();
            let is_own = after.store_generation == core.store_generation;
            (mirror.snapshot(), is_own.then(|| mirror.keys_changed_after(after.revision)).flatten())
        };
        core.view(move || {
            let reader = SnapshotReader::new(&snapshot);
            (view(&reader, changed), reader.damaged())
        })
        .await
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let core = &self.0.core;
        let revision = core.revision_of(at).await?;
        let (snapshot, undo) = core.mirror().snapshot_and_undo(revision)?;
        let viewed = core.view(move || {
            let newest = SnapshotReader::new(&snapshot);
            let value = view(&EarlierReader::new(&newest, revision, undo.into_iter()));
            (value, newest.damaged())
        });
        Ok(intact(viewed.await).await)
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        // In a task of its own: a call that is dropped must keep the transition until its outcome is known.
        let core = self.0.core.clone();
        output(tokio::spawn(async move { commit::run(&core, transition).await }).await)
    }

    async fn apply(&self, transaction: Transaction) -> Result<Revision, ApplyError> {
        let core = self.0.core.clone();
        output(tokio::spawn(async move { commit::apply(&core, transaction).await }).await)
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        let core = &self.0.core;
        let revision = core.revision_of(after).await?;
        core.mirror().changes_after(revision, limit)
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        let mut newest = self.0.core.newest.subscribe();
        *newest.wait_for(|newest| *newest > revision).await.expect("self keeps the sender")
    }
}
