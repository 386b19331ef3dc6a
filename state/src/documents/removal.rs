//! Documents of removals: tombstones, leftovers for the janitor, and forced removals.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::force::ForcedBy;
use crate::terms::names::Uuid;
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Serialize};

/// The forced removal of an entity (see `transitions::force`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedRemovalDoc {
    /// The kind of entity.
    pub kind: ForcedEntityKind,
    /// When force was requested, or when the teardown budget found the entity Dying.
    pub since_ms: i64,
    /// From this time on, the controller acts in place of the entity's agent.
    pub due_ms: i64,
    /// Whether the controller acts at once, without waiting until `due_ms` (`--no-wait`).
    pub no_wait: bool,
    /// What started the forced removal.
    pub by: ForcedBy,
    /// How far the forced removal has come.
    pub phase: ForcedRemovalPhase,
    /// How long the force timer has run, as of the last checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: i64,
}

/// How far the forced removal of an application or a machine has come; that of a unit or a relation has one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ForcedRemovalPhase {
    /// Force is being applied to the entities that belong to this one.
    Propagating {
        /// Their kind: units first, then relations.
        kind: ForcedEntityKind,
        /// The key of the last one in the index of this kind; empty at the start.
        after: String,
    },
    /// Force was applied to all of them.
    Propagated,
    /// The machine is Dead, and its agent has a grace period to uninstall itself.
    AgentGrace,
}

impl Default for ForcedRemovalPhase {
    fn default() -> ForcedRemovalPhase {
        ForcedRemovalPhase::Propagating { kind: ForcedEntityKind::Unit, after: String::new() }
    }
}

fn is_zero(ms: &i64) -> bool {
    *ms == 0
}

/// The kind of entity that is removed by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedEntityKind {
    /// A unit.
    Unit,
    /// An application.
    Application,
    /// A relation.
    Relation,
    /// A machine.
    Machine,
}

string_enum! {
    /// The kind of a removed entity.
    TombstoneKind {
        /// A unit.
        Unit = "unit",
        /// An application.
        Application = "application",
        /// A relation.
        Relation = "relation",
        /// A machine.
        Machine = "machine",
        /// A model.
        Model = "model",
    }
}

/// What remains of a removed entity, so that its agent has positive evidence of the removal (design 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TombstoneDoc {
    /// The kind of entity.
    pub kind: TombstoneKind,
    /// The name that the entity had.
    pub name: String,
    /// The machine of a removed unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Uuid>,
}

impl TombstoneDoc {
    /// The tombstone of an entity that no agent has to tear down.
    pub(crate) fn new(kind: TombstoneKind, name: String) -> TombstoneDoc {
        TombstoneDoc { kind, name, machine: None }
    }
}

impl Model {
    /// The tombstone of a removed entity.
    pub fn tombstone(&self, id: Uuid) -> Key<TombstoneDoc> {
        self.key(Kind::Tombstone, &[id])
    }
    /// A removed unit whose machine has not confirmed that no folder of it is left.
    pub fn recall(&self, machine: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::Recall, &[machine, unit])
    }
    /// The prefix of [`Self::recall`] for one machine.
    pub fn recalls(&self, machine: Uuid) -> String {
        self.prefix_below(Kind::Recall, &[machine])
    }
    /// Leftovers of a removed relation or model, which the janitor deletes: the prefixes to clear.
    pub fn cleanup(&self, id: Uuid) -> Key<Vec<String>> {
        self.key(Kind::Cleanup, &[id])
    }
    /// The prefix of all [`Self::cleanup`] documents.
    pub fn cleanups(&self) -> String {
        self.prefix_below(Kind::Cleanup, &[])
    }
    /// The forced removal of an entity; absent unless it is being removed by force.
    pub fn forced_removal(&self, id: Uuid) -> Key<ForcedRemovalDoc> {
        self.key(Kind::ForcedRemoval, &[id])
    }
}
