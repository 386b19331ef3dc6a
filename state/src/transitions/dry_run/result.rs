//! The result of a dry run: entities, hooks and causes.
//!
//! It is also the response to a dry run in the API.

use crate::terms::cause::{Cause, Entity};
use crate::terms::names::UnitName;
use crate::terms::operation::{Hook, RelationEvent};
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
    /// `leader-elected`; if several units are left, any of them could be elected, so none is listed.
    pub hooks: Vec<ExpectedHook>,
    /// Hooks of units that `--force --no-wait` removes immediately: they run only if their agents are faster.
    #[serde(default)]
    pub skipped_hooks: Vec<ExpectedHook>,
    /// Entities that are removed when all these hooks have succeeded.
    pub removed_eventually: Vec<Entity>,
    /// Machines that stay without units, because they have the content of storage that is not removed.
    #[serde(default)]
    pub kept: Vec<Cause>,
    /// What blocks the removal of the rest, first the agents that the removal waits for and that do not report; a
    /// forced removal does not wait for these.
    pub blockers: Vec<Cause>,
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
    /// Whether both are shown to users as the same hook of the same unit; versions and digests may differ.
    pub(crate) fn is_same_as(&self, other: &ExpectedHook) -> bool {
        self.unit == other.unit
            && self.hook.is_same_as(&other.hook)
            && departing(&self.hook) == departing(&other.hook)
    }
}

/// The unit that departs, if the hook is about a departure.
fn departing(hook: &Hook) -> Option<&UnitName> {
    match hook {
        Hook::Relation { event: RelationEvent::Departed { departing, .. }, .. } => Some(departing),
        _ => None,
    }
}
