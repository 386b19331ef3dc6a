//! The result of a dry run: entities, hooks and causes.
//!
//! It is also the response to a dry run in the API.

use crate::documents::blockers::EntityId;
use crate::terms::cause::{Cause, Entity};
use crate::terms::names::UnitName;
use crate::terms::operation::Hook;
use serde::{Deserialize, Serialize};

/// The result of a dry run, if every hook succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRun {
    /// Entities that the request itself removes.
    pub removed_immediately: Vec<Entity>,
    /// Entities that the request sets Dying.
    pub dying: Vec<Entity>,
    /// Hooks in the order in which they would run. If a leader is removed and one unit is left, the last entry is its
    /// `leader-elected`; of several units any could be elected, so none is listed.
    pub hooks: Vec<ExpectedHook>,
    /// Hooks of units that `--force --no-wait` removes immediately: they run only if their agents are faster.
    #[serde(default)]
    pub skipped_hooks: Vec<ExpectedHook>,
    /// Entities that are removed when all these hooks have succeeded.
    pub removed_eventually: Vec<Entity>,
    /// What blocks the removal of the rest.
    pub blockers: Vec<Cause>,
    /// Machines and units that the removal waits for and whose agents are lost; a forced removal does not wait
    /// for them. Not part of the response: there they are blockers.
    #[serde(skip)]
    pub lost_agents: Vec<EntityId>,
    /// Whether a limit was reached, so that the lists above may be incomplete.
    #[serde(default)]
    pub truncated: bool,
}

/// A hook that would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpectedHook {
    /// The unit.
    pub unit: UnitName,
    /// The hook.
    pub hook: Hook,
}

impl ExpectedHook {
    /// Whether a person sees the same hook: versions and digests may differ.
    pub(crate) fn is_same_as(&self, other: &ExpectedHook) -> bool {
        self.unit == other.unit && self.hook.to_string() == other.hook.to_string()
    }
}
