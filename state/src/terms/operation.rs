//! The operations of a unit agent, of which it performs one at a time.
//!
//! An operation carries the versions (of settings, members, leadership, configuration) that it was decided on, so
//! that the agent commits exactly the versions that its hook observed (spec A.11, "commit the version actually
//! shown"). `resolve` chooses operations; records, the journal and the controller's replica contain them.

use super::commands::CommandsRequest;
use super::hook_name::{HookName, RelationEventName};
use crate::terms::member_version::MemberVersion;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::secret::{SecretEvent, SecretId};
use crate::terms::settings::Bag;
use crate::terms::storage::{AttachedStorage, StorageEvent, StorageId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The charm that a unit runs or upgrades to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CharmRef {
    /// The SHA-256 of the charm archive in hex.
    pub sha256: String,
    /// The charm URL, for example `local:web-3`.
    pub url: String,
    /// The revision that the URL ends with.
    pub revision: u32,
    /// The endpoints that the charm declares. The unit does not enter a relation on another endpoint until it
    /// upgrades to a charm that declares it (spec A.12).
    pub endpoints: BTreeSet<String>,
    /// The digest of the application's resources and their version; empty if it never had any. A unit whose digest differs
    /// upgrades, as to another charm (spec/uniter.md A.6, I.9).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resources: String,
}

/// Hashes of the inputs of config-changed (spec B.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigDigest {
    /// The hash of the application's settings and its charm URL.
    pub settings: String,
    /// The hash of the unit's addresses.
    pub addresses: String,
    /// Whether the application is trusted.
    #[serde(default)]
    pub trusted: bool,
}

/// An operation of the agent, whose outcome becomes a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Download, verify and unpack the charm beside the current one, then swap the folders. The first deployment and
    /// upgrades.
    InstallCharm(CharmRef),
    /// Enter a relation's scope. The unit's initial settings are published in the same transaction.
    EnterScope {
        /// The relation's number.
        relation: RelationNumber,
        /// The relation's UUID.
        uuid: Uuid,
        /// The unit's own side of the relation.
        local_endpoint: LocalEndpoint,
        /// The unit's initial settings.
        settings: Bag,
    },
    /// Leave a relation's scope without hooks, as on the implicit provider side of juju-info.
    LeaveScope {
        /// The relation's number.
        relation: RelationNumber,
        /// The relation's UUID.
        uuid: Uuid,
    },
    /// Run a hook.
    Hook(Hook),
    /// Run an action that an operator requested. An action never runs twice.
    Action {
        /// The task's number.
        id: u64,
        /// The action's name.
        name: String,
    },
    /// Run commands that a process on the machine has requested (juju-exec). They never run twice.
    Commands(CommandsRequest),
    /// Publish the unit's whole state again: the controller's store was restored from a backup (design 4).
    Resync,
    /// Report that the unit is Dead: no hooks, scopes or subordinates are left.
    SetDead,
}

/// The unit's own side of a relation. The agent stores it, so that it can leave the relation without a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocalEndpoint {
    /// The endpoint of the unit's own charm.
    pub endpoint: String,
    /// The interface of the endpoint.
    pub interface: String,
    /// Whether this is a peer relation.
    pub peer: bool,
    /// Whether no charm declares the endpoint (juju-info), so that the relation has no hooks.
    pub implicit: bool,
    /// The application on the other side; in a peer relation the unit's own application.
    pub remote_application: String,
}

/// A hook with the versions that it delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// `install`
    Install,
    /// `leader-elected`, once for each leadership generation that the unit gains.
    LeaderElected {
        /// The generation. `None`: the lease moved before the hook could run, and the hook is skipped (spec A.15).
        generation: Option<u64>,
    },
    /// `leader-settings-changed` on a unit that is not the leader.
    LeaderSettingsChanged {
        /// The version of the settings that it delivers.
        version: u64,
    },
    /// `config-changed` for these inputs.
    ConfigChanged(ConfigDigest),
    /// `start`, once per boot.
    Start {
        /// The boot id of the machine.
        boot: String,
    },
    /// `upgrade-charm`
    UpgradeCharm,
    /// `update-status`
    UpdateStatus,
    /// `stop`
    Stop,
    /// `remove`
    Remove,
    /// A relation hook.
    Relation {
        /// The relation's number.
        relation: RelationNumber,
        /// The endpoint of the unit's own charm.
        endpoint: String,
        /// The event that the hook delivers.
        event: RelationEvent,
    },
    /// A secret hook.
    Secret {
        /// The secret.
        secret: SecretId,
        /// The label by which the unit refers to it; may be empty.
        label: String,
        /// The revision that the hook is about.
        revision: u64,
        /// The event that the hook delivers.
        event: SecretEvent,
        /// Whether only the leader runs the hook, because the application owns the secret.
        leader_only: bool,
    },
    /// `<storage>-storage-attached` or `<storage>-storage-detaching`
    Storage {
        /// The id of the instance.
        id: StorageId,
        /// The instance, with the location that the hook is shown.
        storage: AttachedStorage,
        /// The event.
        event: StorageEvent,
    },
}

/// The event that a relation hook delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RelationEvent {
    /// The unit has entered the scope.
    Created,
    /// A remote unit has entered the scope.
    Joined {
        /// The remote unit.
        unit: UnitName,
        /// The version of its membership and settings.
        version: MemberVersion,
    },
    /// The settings of a remote unit changed.
    Changed {
        /// The remote unit.
        unit: UnitName,
        /// The version of its membership and settings.
        version: MemberVersion,
    },
    /// The settings of the remote application changed; in a peer relation those of the unit's own application.
    ApplicationChanged {
        /// The application whose settings changed.
        application: String,
        /// The counter of its bag.
        counter: u64,
    },
    /// A remote unit is no longer in scope, or this unit departs.
    Departed {
        /// The remote unit.
        unit: UnitName,
        /// The unit that departs: the remote unit or this unit (`JUJU_DEPARTING_UNIT`).
        departing: UnitName,
    },
    /// The relation ends for this unit.
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

    /// Returns the unit for `JUJU_REMOTE_UNIT`; `None` for created, broken and application-level changed.
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
    /// Returns the hook's name, for example `install` or `db-relation-joined`.
    pub fn name(&self) -> HookName {
        match self {
            Hook::Install => HookName::Install,
            Hook::LeaderElected { .. } => HookName::LeaderElected,
            Hook::LeaderSettingsChanged { .. } => HookName::LeaderSettingsChanged,
            Hook::ConfigChanged(_) => HookName::ConfigChanged,
            Hook::Start { .. } => HookName::Start,
            Hook::UpgradeCharm => HookName::UpgradeCharm,
            Hook::UpdateStatus => HookName::UpdateStatus,
            Hook::Stop => HookName::Stop,
            Hook::Remove => HookName::Remove,
            Hook::Relation { endpoint, event, .. } => {
                HookName::Relation { endpoint: endpoint.clone(), event: event.name() }
            }
            Hook::Secret { event, .. } => HookName::Secret(*event),
            Hook::Storage { id, event, .. } => HookName::Storage { name: id.name.clone(), event: *event },
        }
    }
}

impl fmt::Display for Hook {
    /// Writes the hook with its relation and units: `db-relation-joined db:1 mysql/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        if let Hook::Storage { id, .. } = self {
            return write!(f, " {id}");
        }
        if let Hook::Secret { secret, revision, .. } = self {
            return write!(f, " {secret} {revision}");
        }
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

impl Hook {
    /// Whether both are the same hook of the same relation and remote unit, regardless of the versions they were
    /// decided on.
    pub fn is_same_as(&self, other: &Hook) -> bool {
        match (self, other) {
            (
                Hook::Relation { relation: ra, event: ea, .. },
                Hook::Relation { relation: rb, event: eb, .. },
            ) => {
                ra == rb
                    && std::mem::discriminant(ea) == std::mem::discriminant(eb)
                    && ea.remote_unit() == eb.remote_unit()
            }
            (
                Hook::Secret { secret: sa, revision: ra, event: ea, .. },
                Hook::Secret { secret: sb, revision: rb, event: eb, .. },
            ) => (sa, ea) == (sb, eb) && (ra == rb || *ea == SecretEvent::Changed),
            (
                Hook::Storage { id: ia, storage: sa, event: ea },
                Hook::Storage { id: ib, storage: sb, event: eb },
            ) => (ia, ea, sa.instance) == (ib, eb, sb.instance),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Operation {
    /// The operation without what only the agent needs: the settings that it publishes, and the endpoints of a charm.
    /// Statuses contain it.
    #[must_use]
    pub fn without_payload(mut self) -> Operation {
        match &mut self {
            Operation::InstallCharm(charm) => charm.endpoints.clear(),
            Operation::EnterScope { settings, .. } => settings.clear(),
            Operation::LeaveScope { .. }
            | Operation::Hook(_)
            | Operation::Action { .. }
            | Operation::Commands(_)
            | Operation::Resync
            | Operation::SetDead => {}
        }
        self
    }

    /// Whether the operation executes a program of the charm, which requires the machine's hook lock.
    pub fn runs_charm(&self) -> bool {
        match self {
            Operation::Hook(_) | Operation::Action { .. } | Operation::Commands(_) => true,
            Operation::InstallCharm(_)
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => false,
        }
    }

    /// Whether the operation was requested and never runs twice: an action or commands. How it ends does not change the
    /// state of the unit (spec A.16).
    pub fn runs_once(&self) -> bool {
        match self {
            Operation::Action { .. } | Operation::Commands(_) => true,
            Operation::Hook(_)
            | Operation::InstallCharm(_)
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Resync
            | Operation::SetDead => false,
        }
    }

    /// Whether only a unit that is no longer Alive does this (spec A.7).
    pub fn is_teardown(&self) -> bool {
        match self {
            Operation::SetDead => true,
            Operation::Hook(hook) => matches!(hook, Hook::Stop | Hook::Remove),
            Operation::InstallCharm(_)
            | Operation::EnterScope { .. }
            | Operation::LeaveScope { .. }
            | Operation::Action { .. }
            | Operation::Commands(_)
            | Operation::Resync => false,
        }
    }

    /// Whether both operations do the same thing, regardless of the versions they were decided on. A retry that is
    /// the same in this sense belongs to the same failure episode.
    pub fn is_same_as(&self, other: &Operation) -> bool {
        match (self, other) {
            (Operation::Hook(a), Operation::Hook(b)) => a.is_same_as(b),
            (Operation::Action { id: a, .. }, Operation::Action { id: b, .. }) => a == b,
            (Operation::Commands(a), Operation::Commands(b)) => a.id == b.id,
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
                | Operation::Commands(_)
                | Operation::Resync
                | Operation::SetDead,
                _,
            ) => false,
        }
    }
}

impl fmt::Display for Operation {
    /// Writes the operation as the log and the test cases show it: `hook db-relation-joined db:1 mysql/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::InstallCharm(charm) => write!(f, "install charm {}", charm.url),
            Operation::EnterScope { relation, local_endpoint, .. } => {
                write!(f, "enter scope {}:{relation}", local_endpoint.endpoint)
            }
            Operation::LeaveScope { relation, .. } => write!(f, "leave scope {relation}"),
            Operation::Action { id, name } => write!(f, "action {name} {id}"),
            Operation::Commands(_) => f.write_str("commands"),
            Operation::Resync => f.write_str("resync"),
            Operation::SetDead => f.write_str("set dead"),
            Operation::Hook(hook) => write!(f, "hook {hook}"),
        }
    }
}
