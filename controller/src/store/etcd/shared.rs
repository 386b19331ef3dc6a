//! What the feed and all requests of one handle share: the mirror, the clients, and what is known about the store.
//!
//! It waits for the mirror and publishes its revisions, and it ends the handle when the keys of the store prove that it must
//! end. Used by all modules of the engine.

use super::client::Client;
use super::health::Health;
use super::layout::Layout;
use super::mirror::{Documents, Mirror};
use super::newest_reads::NewestReads;
use crate::disk_threads::DiskThreads;
use crate::store::outage::Outage;
use crate::store::unavailable::{self, Unavailable};
use crate::store::{Compacted, Position, StoreError};
use state::documents::draft::Revision;
use state::status::shared_presence::{Statement, Topic};
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinError;

/// How long the watch may take to deliver what etcd has committed, until it is replaced by another one.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the other watch may take, with a connection to another member and a list of all documents.
const NEXT_WATCH_TIMEOUT: Duration = Duration::from_secs(7);

/// What the feed and all requests share.
pub(super) struct Core {
    pub layout: Layout,
    /// For reads and transactions.
    pub client: Client,
    /// For lists and the watch: a response never waits behind many events.
    pub watcher: Client,
    /// The name of this handle, new for each process.
    pub handle: String,
    pub store_generation: Uuid,
    /// The revision of the store record.
    pub store_revision: Revision,
    /// The id of the cluster.
    pub cluster: u64,
    pub mirror: Mutex<Mirror>,
    pub newest: watch::Sender<Revision>,
    pub reached: watch::Sender<Revision>,
    pub broken: watch::Sender<Option<StoreError>>,
    /// Wakes the feed: its watch does not deliver what etcd has committed.
    pub stale_watch: Notify,
    pub health: Arc<Health>,
    /// The number of the last transaction.
    pub transactions: AtomicU64,
    /// The revision of the fence of this handle.
    pub fence: Mutex<Revision>,
    /// The lease of this controller, with which its statements end; none before its first statement and after its end.
    pub lease: tokio::sync::Mutex<Option<i64>>,
    /// The statements that etcd does not accept because of their size. They are not sent again.
    pub too_large: Mutex<BTreeMap<(Uuid, Topic), Option<Statement>>>,
    /// Held while the fence is raised.
    pub raising: tokio::sync::Mutex<()>,
    /// Held by a transition that runs again after a conflict, so that the transitions of one handle do not conflict with
    /// each other again.
    pub retry_lock: tokio::sync::Mutex<()>,
    pub newest_reads: NewestReads,
    /// Views run on threads of their own, so that a long one delays neither the feed nor a request.
    pub readers: DiskThreads,
}

impl Core {
    pub fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().expect("no holder panics")
    }

    pub fn snapshot(&self) -> Documents {
        self.mirror().snapshot()
    }

    pub fn reached(&self) -> Revision {
        *self.reached.borrow()
    }

    /// Changes the mirror, and then publishes its revision.
    pub fn update<T>(&self, change: impl FnOnce(&mut Mirror) -> T) -> T {
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
    pub fn fail(&self, error: StoreError) -> StoreError {
        tracing::error!("{error}");
        self.broken.send_replace(Some(error.clone()));
        error
    }

    pub fn require_unbroken(&self) -> Result<(), StoreError> {
        self.broken.borrow().clone().map_or(Ok(()), Err)
    }

    /// Whether the store record proves that this handle must end: another store generation has started, or a migration.
    /// `found` is the revision of the record; none if it was deleted.
    pub fn is_broken_by(&self, found: Option<Option<Revision>>) -> bool {
        let is_broken = found.is_some_and(|revision| revision != Some(self.store_revision));
        if is_broken {
            self.fail(self.other_generation());
        }
        is_broken
    }

    pub fn other_generation(&self) -> StoreError {
        let prefix = self.layout.prefix();
        StoreError::Broken(format!("another store generation was started below the prefix {prefix} of etcd"))
    }

    /// Waits until the mirror has this revision.
    pub async fn wait_reached(&self, revision: Revision) -> Result<(), Outage> {
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
        self.health.record_outage(&outage);
        Err(outage)
    }

    /// Waits until the mirror has every commit that was reported to a caller before this call. Returns the newest of them.
    pub async fn fresh(&self) -> Result<Revision, Outage> {
        let newest = self.newest_reads.read().await?;
        self.wait_reached(newest).await?;
        Ok(newest)
    }

    /// Like [`Core::fresh`] for a reader without an error: ends its request during an outage, or tries again.
    pub async fn fresh_or_retry(&self) {
        while let Err(outage) = self.fresh().await {
            unavailable::retry(Unavailable::Outage(outage)).await;
        }
    }

    /// Runs a view on a thread of its own. Also returns the damaged documents that it read.
    pub async fn view<T, F>(&self, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce() -> (T, Vec<String>) + Send + 'static,
    {
        self.readers.run(view).await
    }

    /// Returns the revision of a position of this store generation. A position beyond the mirror is one that another
    /// controller has answered with: the mirror is brought up to date first.
    ///
    /// # Errors
    /// If the position is of another store generation.
    pub async fn revision_of(&self, position: Position) -> Result<Revision, Compacted> {
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
pub(super) fn output<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => panic!("nothing cancels the task: {error}"),
    })
}
