//! What the agent of a unit is doing: the fact that it reports while an operation runs, and that status shows.
//!
//! An [`Operation`] without its payload (versions, settings), so that it is small enough for every report. The agent
//! sends it, the controller keeps it in memory beside the unit's presence, and it becomes text in the agent's status
//! message alone; nothing parses that text.

use super::hook_name::HookName;
use super::operation::{Hook, Operation};
use crate::terms::names::{RelationNumber, UnitName};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Fetches and installs the charm.
    Deploy,
    EnterScope {
        relation: RelationNumber,
        endpoint: String,
    },
    LeaveScope {
        relation: RelationNumber,
    },
    Hook {
        name: HookName,
        /// The unit that a relation hook runs for.
        remote_unit: Option<UnitName>,
    },
    Action {
        id: u64,
        name: String,
    },
    /// Publishes everything again: the store was restored.
    Resync,
    /// Reports that the unit is finished.
    Die,
}

impl Activity {
    /// A hook that no other unit is the cause of.
    pub fn hook(name: HookName) -> Activity {
        Activity::Hook { name, remote_unit: None }
    }
}

impl From<&Operation> for Activity {
    fn from(operation: &Operation) -> Activity {
        match operation {
            Operation::InstallCharm(_) => Activity::Deploy,
            Operation::EnterScope { relation, place, .. } => {
                Activity::EnterScope { relation: *relation, endpoint: place.endpoint.clone() }
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
            Operation::Resync => Activity::Resync,
            Operation::SetDead => Activity::Die,
        }
    }
}

impl fmt::Display for Activity {
    /// As a status message in Juju's words: `running config-changed hook`, `running action post`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::Deploy => f.write_str("installing charm software"),
            Activity::EnterScope { relation, endpoint } => write!(f, "enter scope {endpoint}:{relation}"),
            Activity::LeaveScope { relation } => write!(f, "leave scope {relation}"),
            Activity::Hook { name, remote_unit: None } => write!(f, "running {name} hook"),
            Activity::Hook { name, remote_unit: Some(unit) } => write!(f, "running {name} hook for {unit}"),
            Activity::Action { name, .. } => write!(f, "running action {name}"),
            Activity::Resync => f.write_str("restate"),
            Activity::Die => f.write_str("set dead"),
        }
    }
}
