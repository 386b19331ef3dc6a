//! The engine of the store that a controller was started with.
//!
//! What is generic over a store (handlers, watches, the janitor, the server) is compiled once for both engines: a second
//! copy of it would be as large as the whole controller. `program` opens the engine; tests use an engine directly.

#[cfg(feature = "etcd")]
use super::etcd::Etcd;
use super::files::StoreFiles;
use super::leader_leases::StoreLeases;
use super::shared_presence::StoreStatements;
use super::sqlite::Sqlite;
use super::usage::StoreUsage;
use super::{ApplyError, CommitChanges, Committed, Compacted, Position, RunError, Store, StoreError};
use state::documents::draft::{Draft, Reader, Revision, Transaction};
use state::terms::names::Uuid;
use state::terms::write_failure::WriteFailure;

/// A store in one of the engines.
#[derive(Clone)]
pub enum Engine {
    /// In the data folder.
    Sqlite(Sqlite),
    /// In a cluster of etcd.
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
}

/// Evaluates an expression for the engine that is open.
macro_rules! of_engine {
    ($engine:expr, $store:ident => $value:expr) => {
        match $engine {
            Engine::Sqlite($store) => $value,
            #[cfg(feature = "etcd")]
            Engine::Etcd($store) => $value,
        }
    };
}

impl Engine {
    /// Waits until the store cannot be used any more, and returns why. The process must then exit.
    pub async fn broken(&self) -> StoreError {
        match self {
            Engine::Sqlite(store) => StoreError::Broken(store.broken().await),
            #[cfg(feature = "etcd")]
            Engine::Etcd(store) => store.broken().await,
        }
    }
}

impl Store for Engine {
    fn store_generation(&self) -> Uuid {
        of_engine!(self, store => store.store_generation())
    }

    fn newest_revision(&self) -> Revision {
        of_engine!(self, store => store.newest_revision())
    }

    async fn confirmed_newest(&self) -> Revision {
        of_engine!(self, store => store.confirmed_newest().await)
    }

    async fn read<T, F>(&self, view: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        of_engine!(self, store => store.read(view).await)
    }

    async fn read_available<T, F>(&self, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        of_engine!(self, store => store.read_available(view).await)
    }

    async fn read_since<T, F>(&self, after: Position, view: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Option<Vec<String>>) -> T + Send + 'static,
    {
        of_engine!(self, store => store.read_since(after, view).await)
    }

    async fn read_at<T, F>(&self, at: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        of_engine!(self, store => store.read_at(at, view).await)
    }

    async fn read_after<T, F>(&self, after: Position, view: F) -> Result<T, Compacted>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, &[CommitChanges]) -> T + Send + 'static,
    {
        of_engine!(self, store => store.read_after(after, view).await)
    }

    async fn run<A, R, F>(&self, transition: F) -> Result<Committed<A>, RunError<R>>
    where
        A: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut Draft<'_>) -> Result<A, R> + Send + Sync + 'static,
    {
        of_engine!(self, store => store.run(transition).await)
    }

    async fn apply(&self, transaction: Transaction) -> Result<Revision, ApplyError> {
        of_engine!(self, store => store.apply(transaction).await)
    }

    async fn changes_after(&self, after: Position, limit: usize) -> Result<Vec<CommitChanges>, Compacted> {
        of_engine!(self, store => store.changes_after(after, limit).await)
    }

    async fn usage(&self) -> StoreUsage {
        of_engine!(self, store => store.usage().await)
    }

    fn files(&self) -> Option<StoreFiles> {
        of_engine!(self, store => store.files())
    }

    fn leader_leases(&self) -> Option<StoreLeases> {
        of_engine!(self, store => store.leader_leases())
    }

    fn statements(&self) -> Option<StoreStatements> {
        of_engine!(self, store => store.statements())
    }

    fn write_failure(&self) -> Option<WriteFailure> {
        of_engine!(self, store => store.write_failure())
    }

    async fn wait_past(&self, revision: Revision) -> Revision {
        of_engine!(self, store => store.wait_past(revision).await)
    }
}
