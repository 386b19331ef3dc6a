//! Documents of removals: tombstones, leftovers for the janitor, and forced removals.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::force::ForcedBy;
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// The forced removal of an entity (see `lifecycle::force`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedDoc {
    /// The kind of entity.
    pub kind: ForcedKind,
    /// When force was requested, or when the teardown budget found the entity Dying.
    pub since_ms: i64,
    /// From this time on, the controller acts in place of the entity's agent.
    pub due_ms: i64,
    /// Whether the removal does not wait for the machine agent either (`--no-wait`).
    pub no_wait: bool,
    /// What started the forced removal.
    pub by: ForcedBy,
    /// For an application or a machine: the last dependent entity to which force was applied; empty if there
    /// was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// How much of the grace period the controller has measured so far, as of the last checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: i64,
}

fn is_zero(ms: &i64) -> bool {
    *ms == 0
}

/// The kind of entity that is removed by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedKind {
    /// A unit.
    Unit,
    /// An application.
    Application,
    /// A relation.
    Relation,
    /// A machine.
    Machine,
}

/// What remains of a removed entity, so that its agent learns of the removal from positive evidence (design 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TombstoneDoc {
    /// The kind of entity.
    pub kind: String,
    /// The name that the entity had.
    pub name: String,
}

impl Model {
    /// The tombstone of a removed entity.
    pub fn tombstone(&self, id: Uuid) -> Key<TombstoneDoc> {
        self.key(Kind::Tombstone, &[id])
    }
    /// Leftovers of a removed relation or unit, which the janitor deletes: the prefixes to clear.
    pub fn cleanup(&self, id: Uuid) -> Key<Vec<String>> {
        self.key(Kind::Cleanup, &[id])
    }
    /// The prefix of all [`Self::cleanup`] documents.
    pub fn cleanups(&self) -> String {
        self.below(Kind::Cleanup, &[])
    }
    /// The forced removal of an entity; absent unless it is being removed by force.
    pub fn forced(&self, id: Uuid) -> Key<ForcedDoc> {
        self.key(Kind::Forced, &[id])
    }
}
