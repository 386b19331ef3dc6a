//! What a unit agent can do, one at a time. An operation carries the versions it was decided on, so that what is
//! committed is what was shown (spec A.11, "commit the version actually shown").

use super::hook_name::{HookName, RelationEventName};
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::settings::Bag;
use crate::terms::version::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The charm a unit runs or is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CharmRef {
    pub sha256: String,
    pub url: String,
    pub revision: u32,
    /// Endpoints it declares: a relation to one it lacks is left alone until an upgrade (spec A.12).
    pub endpoints: BTreeSet<String>,
}

/// The inputs of config-changed, hashed: settings with charm, and addresses (spec B.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigDigest {
    pub settings: String,
    pub addresses: String,
}

/// Something the agent does and records the outcome of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Fetch, verify, unpack beside, swap: first deployment and upgrade.
    InstallCharm(CharmRef),
    /// Announce this unit in a relation's scope, its initial settings in the same transaction (seed 000).
    EnterScope {
        relation: RelationNumber,
        uuid: Uuid,
        place: Place,
        settings: Bag,
    },
    /// Leave without hooks: the implicit provider side of juju-info.
    LeaveScope {
        relation: RelationNumber,
        uuid: Uuid,
    },
    Hook(Hook),
    /// A person's action. Never run twice.
    Action {
        id: u64,
        name: String,
    },
    /// Publish everything again: the controller was restored from an older copy (design 4).
    Resync,
    /// Say that this unit is finished: no hooks, scopes or subordinates left.
    SetDead,
}

/// Where a relation stands on this unit's side; kept locally so that teardown needs no view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub endpoint: String,
    pub interface: String,
    pub peer: bool,
    pub implicit: bool,
    pub remote_application: String,
}

/// One run of the charm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    Install,
    /// For one generation of the leadership; none = it moved before the hook could run, which is skipped (spec A.15).
    LeaderElected {
        generation: Option<u64>,
    },
    ConfigChanged(ConfigDigest),
    /// Runs once per boot.
    Start {
        boot: String,
    },
    UpgradeCharm,
    UpdateStatus,
    Stop,
    Remove,
    Relation {
        relation: RelationNumber,
        endpoint: String,
        event: RelationEvent,
    },
}

/// What happened in a relation, as its hooks are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationEvent {
    Created,
    Joined {
        unit: UnitName,
        version: Version,
    },
    Changed {
        unit: UnitName,
        version: Version,
    },
    /// The remote application's bag; in a peer relation one's own application's.
    ApplicationChanged {
        application: String,
        counter: u64,
    },
    Departed {
        unit: UnitName,
        departing: UnitName,
    },
    Broken,
}

impl RelationEvent {
    fn name(&self) -> RelationEventName {
        match self {
            RelationEvent::Created => RelationEventName::Created,
            RelationEvent::Joined { .. } => RelationEventName::Joined,
            RelationEvent::Changed { .. } | RelationEvent::ApplicationChanged { .. } => {
                RelationEventName::Changed
            }
            RelationEvent::Departed { .. } => RelationEventName::Departed,
            RelationEvent::Broken => RelationEventName::Broken,
        }
    }

    /// `JUJU_REMOTE_UNIT`: none for created, broken and application-level changed.
    pub fn remote_unit(&self) -> Option<&UnitName> {
        match self {
            RelationEvent::Joined { unit, .. }
            | RelationEvent::Changed { unit, .. }
            | RelationEvent::Departed { unit, .. } => Some(unit),
            RelationEvent::Created | RelationEvent::Broken | RelationEvent::ApplicationChanged { .. } => None,
        }
    }
}

impl Hook {
    /// The name charms know: `install`, `db-relation-joined`.
    pub fn name(&self) -> HookName {
        match self {
            Hook::Install => HookName::Install,
            Hook::LeaderElected { .. } => HookName::LeaderElected,
            Hook::ConfigChanged(_) => HookName::ConfigChanged,
            Hook::Start { .. } => HookName::Start,
            Hook::UpgradeCharm => HookName::UpgradeCharm,
            Hook::UpdateStatus => HookName::UpdateStatus,
            Hook::Stop => HookName::Stop,
            Hook::Remove => HookName::Remove,
            Hook::Relation { endpoint, event, .. } => {
                HookName::Relation { endpoint: endpoint.clone(), event: event.name() }
            }
        }
    }
}

impl fmt::Display for Hook {
    /// As scripts and people read it: `db-relation-joined db:1 mysql/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        let Hook::Relation { relation, endpoint, event } = self else { return Ok(()) };
        write!(f, " {endpoint}:{relation}")?;
        match event {
            RelationEvent::ApplicationChanged { application, .. } => write!(f, " {application}"),
            RelationEvent::Departed { unit, departing } => write!(f, " {unit} departing={departing}"),
            RelationEvent::Joined { unit, .. } | RelationEvent::Changed { unit, .. } => write!(f, " {unit}"),
            RelationEvent::Created | RelationEvent::Broken => Ok(()),
        }
    }
}

impl Operation {
    /// Runs a program of the charm, so the machine's hook lock is held around it.
    pub fn runs_charm(&self) -> bool {
        match self {
            Operation::Hook(_) | Operation::Action { .. } => true,
            Operation::InstallCharm(_)
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => false,
        }
    }

    /// The same thing to do, whatever versions it was decided on: what makes a retry the same episode.
    pub fn is_same_as(&self, other: &Operation) -> bool {
        match (self, other) {
            (Operation::Hook(a), Operation::Hook(b)) => match (a, b) {
                (
                    Hook::Relation { relation: ra, event: ea, .. },
                    Hook::Relation { relation: rb, event: eb, .. },
                ) => {
                    ra == rb
                        && std::mem::discriminant(ea) == std::mem::discriminant(eb)
                        && ea.remote_unit() == eb.remote_unit()
                }
                _ => std::mem::discriminant(a) == std::mem::discriminant(b),
            },
            (Operation::Action { id: a, .. }, Operation::Action { id: b, .. }) => a == b,
            (Operation::InstallCharm(_), Operation::InstallCharm(_))
            | (Operation::SetDead, Operation::SetDead)
            | (Operation::Resync, Operation::Resync) => true,
            (Operation::EnterScope { uuid: a, .. }, Operation::EnterScope { uuid: b, .. })
            | (Operation::LeaveScope { uuid: a, .. }, Operation::LeaveScope { uuid: b, .. }) => a == b,
            (
                Operation::InstallCharm(_)
                | Operation::EnterScope { .. }
                | Operation::LeaveScope { .. }
                | Operation::Hook(_)
                | Operation::Action { .. }
                | Operation::Resync
                | Operation::SetDead,
                _,
            ) => false,
        }
    }
}

impl fmt::Display for Operation {
    /// As scripts and people read it: `hook db-relation-joined db:1 mysql/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::InstallCharm(charm) => write!(f, "deploy {}", charm.url),
            Operation::EnterScope { relation, place, .. } => {
                write!(f, "enter scope {}:{relation}", place.endpoint)
            }
            Operation::LeaveScope { relation, .. } => write!(f, "leave scope {relation}"),
            Operation::Action { id, name } => write!(f, "action {name} {id}"),
            Operation::Resync => f.write_str("restate"),
            Operation::SetDead => f.write_str("set dead"),
            Operation::Hook(hook) => write!(f, "hook {hook}"),
        }
    }
}
