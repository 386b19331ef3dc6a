//! What removals leave: tombstones, leftovers for the janitor, and what is to go by force.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// An entity that is removed by force (see `force`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedDoc {
    pub kind: ForcedKind,
    /// When it was asked for, or found Dying.
    pub since_ms: i64,
    /// From then on the controller acts in place of the entity's agent.
    pub due_ms: i64,
    /// Nor does it wait for the machine agent.
    pub no_wait: bool,
    pub by: ForcedBy,
    /// Of an application or a machine: how far what belongs to it was forced with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Of the wait that goes on: how much of it the controller has seen pass, as far as it wrote that down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: i64,
}

fn is_zero(ms: &i64) -> bool {
    *ms == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedKind {
    Unit,
    Application,
    Relation,
    Machine,
}

/// What made an entity forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedBy {
    /// A removal with `--force`, of the entity or of what it belongs to.
    Operator,
    /// The model's `teardown-budget`.
    Budget,
}

/// A removed entity leaves one, so that its agent learns of the removal from positive evidence (design 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TombstoneDoc {
    pub kind: String,
    pub name: String,
}

impl Model {
    pub fn tombstone(&self, id: Uuid) -> Key<TombstoneDoc> {
        self.key(Kind::Tombstone, &[id])
    }
    /// Leftovers of a removed relation or unit, for the janitor: the prefix to clear.
    pub fn cleanup(&self, id: Uuid) -> Key<Vec<String>> {
        self.key(Kind::Cleanup, &[id])
    }
    pub fn cleanups(&self) -> String {
        self.below(Kind::Cleanup, &[])
    }
    /// There while the entity is to go by force.
    pub fn forced(&self, id: Uuid) -> Key<ForcedDoc> {
        self.key(Kind::Forced, &[id])
    }
}
