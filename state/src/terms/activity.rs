//! The operation that a unit agent is running, as the agent reports it to the controller.
//!
//! An [`Activity`] is an [`Operation`] without its payload (versions, settings), so that every report can carry it.
//! The agent sends it while an operation runs, and the controller keeps it in memory with the unit's presence. Its
//! English is in `api::text::activity`; no code of the product parses that text.

use super::hook_name::HookName;
use super::operation::{Hook, Operation};
use crate::terms::names::{RelationNumber, UnitName};
use serde::{Deserialize, Serialize};

/// What a unit agent is doing now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// The agent downloads and unpacks the charm.
    InstallCharm,
    /// The unit enters the scope of a relation.
    EnterScope {
        /// The relation's number.
        relation: RelationNumber,
        /// The endpoint of the unit's own charm.
        endpoint: String,
    },
    /// The unit leaves the scope of a relation without a hook.
    LeaveScope {
        /// The relation's number.
        relation: RelationNumber,
    },
    /// A hook runs.
    Hook {
        /// The hook's name.
        name: HookName,
        /// The remote unit of a relation hook, if the hook has one.
        remote_unit: Option<UnitName>,
    },
    /// An action runs.
    Action {
        /// The task's number.
        id: u64,
        /// The action's name.
        name: String,
    },
    /// Commands run that a process on the machine has requested.
    Commands,
    /// The agent publishes its whole state again, because the store was restored from a backup.
    Resync,
    /// The agent reports that the unit is Dead.
    SetDead,
}

impl Activity {
    /// Returns the activity of a hook without a remote unit.
    pub fn hook(name: HookName) -> Activity {
        Activity::Hook { name, remote_unit: None }
    }
}

impl From<&Operation> for Activity {
    fn from(operation: &Operation) -> Activity {
        match operation {
            Operation::InstallCharm(_) => Activity::InstallCharm,
            Operation::EnterScope { relation, local_endpoint, .. } => {
                Activity::EnterScope { relation: *relation, endpoint: local_endpoint.endpoint.clone() }
            }
            Operation::LeaveScope { relation, .. } => Activity::LeaveScope { relation: *relation },
            Operation::Hook(hook) => {
                let remote_unit = match hook {
                    Hook::Relation { event, .. } => event.remote_unit().cloned(),
                    _ => None,
                };
                Activity::Hook { name: hook.name(), remote_unit }
            }
            Operation::Action { id, name } => Activity::Action { id: *id, name: name.clone() },
            Operation::Commands(_) => Activity::Commands,
            Operation::Resync => Activity::Resync,
            Operation::SetDead => Activity::SetDead,
        }
    }
}
