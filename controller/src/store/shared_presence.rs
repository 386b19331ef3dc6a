//! Statements about agents that the store keeps for all controllers ([`state::status::shared_presence`]).
//!
//! The embedded engine keeps none: its one controller has the presence of agents in memory. With etcd each statement ends
//! with the lease of the controller that has made it, and every controller follows them with the watch of its mirror. A
//! reader that has seen a commit has also seen every statement that was made before it.

use super::outage::Outage;
use futures::future::BoxFuture;
use state::documents::draft::Revision;
use state::status::shared_presence::{BootChange, Boots, Statement, Topic};
use state::terms::names::Uuid;
use std::sync::{Arc, Weak};

/// A statement that the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The statement.
    pub statement: Statement,
    /// Whether this controller has made it.
    pub is_own: bool,
    /// When it was made.
    pub revision: Revision,
}

/// A change of what the store has about one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementChange {
    /// The agent.
    pub agent: Uuid,
    /// The topic.
    pub topic: Topic,
    /// The statement; none to delete it.
    pub statement: Option<Statement>,
    /// The revision of the statement that it replaces; 0 if there was none. If another one was made since, nothing changes.
    pub replaces: Revision,
}

/// Another controller with the same store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherController {
    /// The address on which it serves.
    pub address: String,
}

/// Receives what the store has, in the order of its revisions. It must not call the store.
pub trait StatementReceiver: Send + Sync {
    /// The store has this about a topic now; none if the statement has ended.
    fn receive(&self, agent: Uuid, topic: Topic, stated: Option<&Stated>);
}

/// The statements of a store. Clones share them.
pub type StoreStatements = Arc<dyn SharedStatements>;

/// A port to the statements of a store.
pub trait SharedStatements: Send + Sync {
    /// Calls the receiver with all statements, and then with each change, before a reader sees the next commit.
    fn follow(&self, receiver: Weak<dyn StatementReceiver>);

    /// Returns the statement about a topic, as far as it has arrived here.
    fn stated(&self, agent: Uuid, topic: Topic) -> Option<Stated>;

    /// Makes changes. Those that another controller has overtaken are left out. The receiver has them when this returns.
    ///
    /// # Errors
    /// If the store cannot be used. Some of them may have been made.
    fn change(&self, changes: Vec<StatementChange>) -> BoxFuture<'_, Result<(), Outage>>;

    /// Changes the boots of an agent. The receiver has them when this returns. `known`: what counts if the statement has ended
    /// with the controller that has made it, before another one has stated it again.
    ///
    /// # Errors
    /// If the store cannot be used. The change may have been made.
    fn change_boots(
        &self,
        agent: Uuid,
        known: Boots,
        change: BootChange,
    ) -> BoxFuture<'_, Result<(), Outage>>;

    /// Tells all controllers that an agent was removed, and deletes all statements about it.
    ///
    /// # Errors
    /// If the store cannot be used: it is to be repeated.
    fn remove(&self, agent: Uuid) -> BoxFuture<'_, Result<(), Outage>>;

    /// Renews the lease of this controller, of which others are told the address. After an outage that was longer than
    /// the lease, its statements have ended. What other controllers have stated stays, also if one has the same address.
    ///
    /// # Errors
    /// If the store cannot be used.
    fn renew(&self, address: &str) -> BoxFuture<'_, Result<(), Outage>>;

    /// Ends all statements of this controller, which serves no longer.
    ///
    /// # Errors
    /// If the store cannot be used: they end by themselves.
    fn end(&self) -> BoxFuture<'_, Result<(), Outage>>;

    /// Returns the other controllers that serve.
    fn others(&self) -> Vec<OtherController>;
}
