//! The etcd engine of the store (design 8), for any number of controllers at once, none of which is special.
//!
//! Each handle has a `mirror` of all documents in memory, always at one revision, which `feed` keeps up to date with one
//! watch. A transition runs on the mirror; `commit` compares everything that it read and writes everything that it wrote
//! in one transaction of etcd, and runs it again after a conflict. What was read is compared at the commit itself, so
//! committed transactions are strictly serialisable however old the mirror is (I45); a result without a commit is
//! returned only after `Core::fresh` has shown that the mirror had every commit that was reported before.
//!
//! What needs care because other controllers commit at the same time:
//! * A transaction whose answer was lost: its outcome is determined before anything is answered (`commit`).
//! * Another store generation (`--restored`) and a migration write the store record, which every transaction compares, so
//!   they end every handle that was opened before. A migration refuses to start while other controllers serve.
//! * A fence is one handle's own. The oldest ones are deleted by later starts, also that of a handle that is still open,
//!   which then writes it again.
//! * Janitors: each controller has one, and all do the same work. Each batch is a transition, so the second one finds it
//!   done or is run again; files are deleted by the revision of their manifest (`files`).
//! * Force timers count in each controller, from the newest checkpoint that it has found: passing time once, not once for
//!   each controller. A checkpoint never lowers the stored time.
//! * Numbers of units, machines and relations are documents that the transition reads: a number is given once.
//! * Times of commits are those at which each controller has seen them; of earlier ones, its own start.
//! * Nothing else in the memory of a controller may be used to decide what another one may have changed.
//!
//! A revision is one of etcd: the revisions of this store strictly increase and have gaps, since etcd counts the writes
//! of all its users. `layout` has the keys, `files` the charm archives and files of resources, `leader_leases` the leases of
//! leaders, `client` and `messages` the protocol, `open` the checks of a start, `copy` what a migration copies,
//! `newest_reads` how new the mirror must be, `shared` what the modules of the engine share, `health` what is reported
//! during an outage ([`Outage`]).

mod client;
mod commit;
mod copy;
mod feed;
mod files;
mod health;
mod known_statements;
mod layout;
mod leader_leases;
mod messages;
mod mirror;
mod newest_reads;
mod open;
mod shared;
mod statements;

pub use client::Tls;
pub use copy::{EtcdCopy, leave, newest_change, prepare_to_leave};
pub use files::{CHUNK_BYTES, EtcdFiles};
pub use layout::{FileManifest, Migration, StoreRecord};
pub use open::{OpenError, Options, RecordedStore, parse_address};

use super::files::StoreFiles;
use super::leader_leases::StoreLeases;
use super::outage::Outage;
use super::shared_presence::StoreStatements;
use super::unavailable;
use super::{
    ApplyError, CommitChanges, Committed, Compacted, EarlierReader, Position, RunError, Store, StoreError,
};
use commit::{AnyValue, Transition};
use leader_leases::EtcdLeases;
use mirror::SnapshotReader;
use shared::{Core, output};
use state::documents::draft::{Draft, Reader, Revision, Transaction};
use state::terms::names::Uuid;
use state::terms::write_failure::WriteFailure;
use statements::EtcdStatements;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// A store in etcd. Clones share one handle, which ends with the last of them.
#[derive(Clone)]
pub struct Etcd(Arc<Handle>);

struct Handle {
    core: Arc<Core>,
    files: EtcdFiles,
    feed: AbortHandle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.feed.abort();
    }
}

/// Returns the value of a view. If the view read damaged documents, the request of the caller ends.
async fn intact<T>(value: T, damaged: Vec<String>) -> T {
    match damaged.is_empty() {
        true => value,
        false => unavailable::damaged(damaged).await,
    }
}

/// Returns the value of a transition in its own type.
fn unboxed<T: 'static>(value: AnyValue) -> T {
    *value.downcast().expect("the transition has this type")
}

impl Etcd {
    /// Opens the store below a prefix; creates it if there is none.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(options: Options) -> Result<Etcd, OpenError> {
        let core = open::open(options).await?;
        let feed = tokio::spawn(feed::follow(core.clone())).abort_handle();
        let files = EtcdFiles::new(&core.client, core.layout.clone(), core.store_revision);
        Ok(Etcd(Arc::new(Handle { core, files, feed })))
    }

    /// Verifies that etcd answers a request for which it needs its majority. Other reasons not to use it are found by `open`.
    ///
    /// # Errors
    /// If it does not.
    pub async fn require_answer(options: &Options) -> Result<(), OpenError> {
        match open::connect(options).await {
            Err(error @ OpenError::Outage(_)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Waits until the store is broken, and returns the reason. The process must
    /// then exit.
    pub async fn broken(&self) -> StoreError {
        let mut broken = self.0.core.broken.subscribe();
        let error = broken.wait_for(Option::is_some).await.expect("self keeps the sender");
        error.clone().expect("it was waited for")
    }

    /// In a task of its own: a call that is dropped must keep the transition until its outcome is known.
    async fn run_any(&self, transition: Box<Transition>) -> Result<Committed<AnyValue>, RunError<AnyValue>> {
        let core = self.0.core.clone();
        output(tokio::spawn(async move { commit::run(&core, &*transition).await }).await)
    }

    /// The name of this handle, as its keys in etcd contain it.
    pub fn handle(&self) -> &str {
        &self.0.core.handle
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
            handle: Some(core.handle.clone()),
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

    async fn confirmed_newest(&self) -> Revision {
        self.0.core.fresh_or_retry().await;
        self.newest_revision()
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let (value, damaged) = self.read_available(view).await;
        intact(value, damaged).await
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
        let (value, damaged) = viewed.await;
        Ok(intact(value, damaged).await)
    }

    async fn read_after<T, F>(&self, after: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static,
    {
        let core = &self.0.core;
        let revision = core.revision_of(after).await?;
        let (snapshot, commits) = core.mirror().snapshot_and_changes(revision)?;
        let viewed = core.view(move || {
            let reader = SnapshotReader::new(&snapshot);
            (view(&reader, &commits), reader.damaged())
        });
        let (value, damaged) = viewed.await;
        Ok(intact(value, damaged).await)
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        let transition = move |draft: &mut Draft<'_>| match transition(draft) {
            Ok(answer) => Ok(Box::new(answer) as AnyValue),
            Err(refusal) => Err(Box::new(refusal) as AnyValue),
        };
        match self.run_any(Box::new(transition)).await {
            Ok(Committed { answer, revision }) => Ok(Committed { answer: unboxed(answer), revision }),
            Err(error) => Err(error.map_refusal(unboxed)),
        }
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

    fn files(&self) -> Option<StoreFiles> {
        Some(Arc::new(self.0.files.clone()))
    }

    fn leader_leases(&self) -> Option<StoreLeases> {
        Some(Arc::new(EtcdLeases::new(self.0.core.clone())))
    }

    fn statements(&self) -> Option<StoreStatements> {
        Some(Arc::new(EtcdStatements::new(self.0.core.clone())))
    }

    fn write_failure(&self) -> Option<WriteFailure> {
        self.outage().map(|outage| WriteFailure::Outage(outage.to_string()))
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        let mut newest = self.0.core.newest.subscribe();
        *newest.wait_for(|newest| *newest > revision).await.expect("self keeps the sender")
    }
}
