//! The context of a hook: everything that the hook tools read, and the buffer for what they write.
//!
//! What a hook reads is fixed when the agent decides to run it (I5), except what a tool requests from the controller:
//! omitted bags, leader settings and secrets. What a hook writes is buffered here, and the agent commits it only if the
//! hook's process exits with 0 (design 4). The context is plain data without a connection or a
//! clock: `hook_context_builder` builds it, and the hook session lends it to the hook tools.

pub use super::hook_relation::{HookRelation, OmittedBags};
use super::logging_config::LoggingConfig;
use super::secrets::HookSecret;
pub use super::writes::{
    ALL_ENDPOINTS, ActionWrites, BagWrites, HOOK_DOCUMENTS_MAX, HOOK_WRITES_BYTES_MAX, HookWriteError, Level,
    PortWrites, Ports, Reboot, ReportContent, Writes,
};
use crate::charm::StorageType;
use crate::terms::commands::RelationContext;
use crate::terms::hook_name::HookName;
pub use crate::terms::leader_settings::LEADER_SETTINGS_BYTES_MAX;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::proxy::Proxies;
use crate::terms::secret::{SecretEvent, SecretId};
use crate::terms::settings::Bag;
use crate::terms::status::WorkloadStatus;
use crate::terms::storage::StorageId;
use crate::terms::store_engine::StoreEngine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The data of one run of a hook, an action or commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookContext {
    /// The unit's name.
    pub unit: UnitName,
    /// The principal of a subordinate unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    /// The secret id that every tool call must present: `web/0-install-<32 hex digits>`.
    pub id: String,
    /// Why the charm runs.
    pub trigger: HookTrigger,
    /// The model.
    pub model: HookModel,
    /// Whether the unit is the leader for at least another 30 s. The agent revokes it by
    /// [`HookContext::restrict_leadership`]; it never becomes true again in this hook (spec/hook-tools.md 2.2).
    pub leader: bool,
    /// The settings that the leader has stored (leader-get), including those that this hook has stored.
    pub leader_settings: Bag,
    /// The relations whose scope the unit has entered.
    pub relations: BTreeMap<RelationNumber, HookRelation>,
    /// Every option that the charm declares: the value that was set, else the default, else null.
    pub config: BTreeMap<String, Value>,
    /// The charm's stored state (state-get) before this hook.
    pub charm_state: BTreeMap<String, String>,
    /// Workload statuses.
    pub statuses: Statuses,
    /// The ports that the unit had opened before this hook.
    pub opened_ports: Ports,
    /// The ports that other units of this machine have opened.
    pub machine_ports: BTreeMap<UnitName, Ports>,
    /// The networks by binding. The empty name is the default binding.
    pub networks: BTreeMap<String, Network>,
    /// The address for clients in the same network.
    pub private_address: Option<String>,
    /// The address for all clients.
    pub public_address: Option<String>,
    /// The state that the model is converging to (goal-state).
    pub goal_state: GoalState,
    /// The cloud with its credential (credential-get); `None` if the application does not have trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<CloudSpec>,
    /// The secrets of the unit and of its application before this hook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<SecretId, HookSecret>,
    /// The storage that the unit has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<StorageId, HookStorage>,
    /// The resources that the charm declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, HookResource>,
    /// The writes of this hook so far.
    pub writes: Writes,
}

/// A resource that the charm declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookResource {
    /// The name of its file.
    pub filename: String,
    /// The digest of the file; none if no user has attached one.
    pub sha256: Option<String>,
}

/// Why the charm runs, with the data that only this kind of run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookTrigger {
    /// A hook without further data: `install`, `config-changed`.
    Hook(HookName),
    /// A relation hook.
    Relation {
        /// The hook's name, for example `db-relation-changed`.
        hook: HookName,
        /// The relation and the remote unit.
        about: RelationContext,
    },
    /// A storage hook.
    Storage {
        /// The hook's name.
        hook: HookName,
        /// The storage id, `data/0`.
        id: StorageId,
        /// Where the storage is mounted.
        location: String,
        /// The kind of storage.
        kind: StorageType,
    },
    /// A secret hook.
    Secret {
        /// What the hook reports.
        event: SecretEvent,
        /// The secret.
        id: SecretId,
        /// The secret's label.
        label: String,
        /// The revision, for secret-remove and secret-expired only.
        revision: Option<u64>,
    },
    /// A hook that delivers a notice of a workload container (Pebble). Machine charms have no containers, so no agent
    /// builds this trigger: the conformance cases of the tools and of the environment do.
    Workload {
        /// The container's name.
        workload: String,
        /// The Pebble notice.
        notice: Notice,
    },
    /// An action.
    Action(RunningAction),
    /// Commands of an operator or of a process (juju-exec).
    Commands(RunningCommands),
}

/// Commands in the context of a unit, optionally of a relation, or on its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningCommands {
    /// The relation and its remote unit.
    pub about: Option<RelationContext>,
    /// The script for bash.
    pub script: String,
    /// Whether they run outside of the context of the unit: without its variables, its tools and the charm's folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_machine: bool,
}

/// A Pebble notice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The notice's id.
    pub id: String,
    /// The notice's type, for example `custom`.
    pub kind: String,
    /// The notice's key.
    pub key: String,
}

/// The action that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningAction {
    /// The action's name.
    pub name: String,
    /// The task's number.
    pub id: String,
    /// The parameters, including the defaults of the charm's schema.
    pub params: Map<String, Value>,
}

/// The model of the unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookModel {
    /// The model's name.
    pub name: String,
    /// The model's UUID.
    pub uuid: Uuid,
    /// Whether the model is on Kubernetes, where charms may open single ports only.
    pub kubernetes: bool,
    /// The proxy settings.
    pub proxies: Proxies,
    /// The levels from which lines are stored.
    #[serde(default, skip_serializing_if = "LoggingConfig::is_default")]
    pub logging: LoggingConfig,
    /// How far the clock of the model was advanced altogether, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub advanced_ms: u64,
    /// Whether warm parents fork the hooks of Python charms: the setting `warm-dispatch`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_dispatch: bool,
    /// The engine of the store, which decides how much the hook may write.
    #[serde(default, skip_serializing_if = "StoreEngine::is_default")]
    pub engine: StoreEngine,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A workload status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookStatus {
    /// The status.
    pub status: WorkloadStatus,
    /// The charm's message.
    pub message: String,
    /// Further data of the status, which status-get prints.
    pub data: BTreeMap<String, Value>,
}

/// The workload statuses that status-get reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statuses {
    /// The unit's own status.
    pub unit: HookStatus,
    /// The status of its application.
    pub application: HookStatus,
    /// The statuses of the application's units, this unit included.
    pub units: BTreeMap<UnitName, HookStatus>,
}

/// The network that a binding is attached to (network-get).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The network devices.
    pub devices: Vec<Device>,
    /// The egress subnets in CIDR notation.
    pub egress: Vec<String>,
    /// The ingress addresses.
    pub ingress: Vec<String>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The MAC address.
    pub mac: String,
    /// The device's name, for example `eth0`.
    pub name: String,
    /// The addresses of the device.
    pub addresses: Vec<Address>,
}

/// An address of a network device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// The host name, or empty.
    pub hostname: String,
    /// The IP address.
    pub value: String,
    /// The subnet in CIDR notation.
    pub cidr: String,
}

/// The cloud of the model. An empty text means that the value is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CloudSpec {
    /// The type, for example `manual`.
    pub kind: String,
    /// The name of the cloud.
    pub name: String,
    /// The region.
    pub region: String,
    /// The endpoint of its API.
    pub endpoint: String,
    /// The credential of the model.
    pub credential: CloudCredential,
}

impl CloudSpec {
    /// The only cloud: its machines are provisioned manually or by the host's provider, and need no credential.
    pub fn of_machines() -> CloudSpec {
        CloudSpec {
            kind: "manual".to_owned(),
            name: "local".to_owned(),
            region: "local".to_owned(),
            credential: CloudCredential { auth_type: "empty".to_owned(), attributes: BTreeMap::new() },
            endpoint: String::new(),
        }
    }
}

/// A credential of a cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CloudCredential {
    /// How it authenticates, for example `certificate`.
    pub auth_type: String,
    /// Its values.
    pub attributes: BTreeMap<String, String>,
}

/// The state that the model is converging to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalState {
    /// The units of this application by name.
    pub units: BTreeMap<String, Goal>,
    /// The related applications and their units by name, for each endpoint.
    pub relations: BTreeMap<String, BTreeMap<String, Goal>>,
}

/// The goal for one unit or application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The status.
    pub status: GoalStatus,
    /// When the status was set, in the format `2006-01-02 15:04:05Z`.
    pub since: String,
}

/// The status of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalStatus {
    /// The workload status of a unit.
    Workload(WorkloadStatus),
    /// A related application has joined.
    Joined,
    /// The unit is being removed.
    Dying,
}

impl GoalStatus {
    /// The word that goal-state prints.
    pub fn as_str(self) -> &'static str {
        match self {
            GoalStatus::Workload(status) => status.as_str(),
            GoalStatus::Joined => "joined",
            GoalStatus::Dying => "dying",
        }
    }
}

/// Which of the unit's two bags in a relation a tool reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagSide {
    /// The unit's own settings.
    Unit,
    /// The settings of its application.
    Application,
}

/// Storage of the unit, as the hook tools print it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookStorage {
    /// The kind.
    pub kind: StorageType,
    /// Where it is mounted, or the device.
    pub location: String,
}

impl HookTrigger {
    /// Returns the value of `JUJU_HOOK_NAME`, which is empty for actions and commands.
    pub fn hook_name(&self) -> String {
        match self {
            HookTrigger::Hook(hook)
            | HookTrigger::Relation { hook, .. }
            | HookTrigger::Storage { hook, .. } => hook.to_string(),
            HookTrigger::Secret { event, .. } => HookName::Secret(*event).to_string(),
            HookTrigger::Workload { workload, notice } => format!("{workload}-pebble-{}-notice", notice.kind),
            HookTrigger::Action(_) | HookTrigger::Commands(_) => String::new(),
        }
    }

    /// Returns the value of `JUJU_DISPATCH_PATH`, which is also the path of the executed file; `None` for commands.
    pub fn dispatch_path(&self) -> Option<String> {
        match self {
            HookTrigger::Action(action) => Some(format!("actions/{}", action.name)),
            HookTrigger::Commands(_) => None,
            HookTrigger::Hook(_)
            | HookTrigger::Relation { .. }
            | HookTrigger::Storage { .. }
            | HookTrigger::Secret { .. }
            | HookTrigger::Workload { .. } => Some(format!("hooks/{}", self.hook_name())),
        }
    }

    /// Whether the run is of commands that a user requested for the machine.
    pub fn runs_on_machine(&self) -> bool {
        matches!(self, HookTrigger::Commands(running) if running.on_machine)
    }

    /// The id of the storage of a storage hook.
    pub fn storage(&self) -> Option<&StorageId> {
        match self {
            HookTrigger::Storage { id, .. } => Some(id),
            HookTrigger::Hook(_)
            | HookTrigger::Relation { .. }
            | HookTrigger::Secret { .. }
            | HookTrigger::Workload { .. }
            | HookTrigger::Action(_)
            | HookTrigger::Commands(_) => None,
        }
    }

    /// Returns the relation of the run, if it has one.
    pub fn relation_context(&self) -> Option<&RelationContext> {
        match self {
            HookTrigger::Relation { about, .. } => Some(about),
            HookTrigger::Commands(running) => running.about.as_ref(),
            HookTrigger::Hook(_)
            | HookTrigger::Storage { .. }
            | HookTrigger::Secret { .. }
            | HookTrigger::Workload { .. }
            | HookTrigger::Action(_) => None,
        }
    }
}

impl HookContext {
    /// Sets `leader` to false if the lease no longer lasts long enough. Never sets it to true.
    pub fn restrict_leadership(&mut self, is_leader: bool) {
        self.leader &= is_leader;
    }

    /// Returns the relation id as charms write it: `db:1`.
    pub fn relation_id(&self, number: RelationNumber) -> Option<String> {
        self.relations.get(&number).map(|relation| format!("{}:{number}", relation.endpoint))
    }
}
