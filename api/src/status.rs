//! The status of a whole model at one revision.
//!
//! The controller derives it from documents and from the presence of agents; the commands print it
//! (spec/clients.md 2.4, 3.3).

use crate::entity_choice::UnitChoice;
use crate::request::requests;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::{Base, Role, Scope};
use state::terms::activity::Activity;
use state::terms::cause::Cause;
use state::terms::constraints::Constraints;
use state::terms::hardware::Hardware;
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::port_range::PortRange;
use state::terms::position::Position;
use state::terms::status::{
    AgentStatus, InstanceStatus, MachineAgentStatus, ModelState, RelationState, WorkloadStatus,
};
use std::collections::BTreeMap;

pub use state::documents::prelude::{StatusChange, SubjectStatus};
pub use state::terms::status_info::StatusInfo;

requests! { StatusRequests {
    GetStatus = get "/v1/models/{model}/status", Reader => Status;
    GetStatusLog = post "/v1/models/{model}/status-log", Reader => StatusLog;
} }

/// Returns the status of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStatus;

/// Returns the statuses that an entity has had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum GetStatusLog {
    /// Those of the workload and the agent of a unit.
    Unit(UnitChoice),
    /// Those that the leaders of the application of this name have set.
    Application(String),
    /// Those of the instance and the agent of the machine of this name.
    Machine(String),
    /// Those of the model.
    Model,
}

/// The last statuses of an entity, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusLog {
    /// The changes.
    pub changes: Vec<StatusChange>,
}

/// A whole model at one revision, by names. The commands produce the text forms (spec/clients.md 2.4, 3.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The position in the store.
    pub position: Position,
    /// The clock of the controller when it answered.
    pub now_ms: i64,
    /// The model.
    pub model: ModelStatus,
    /// The machines by name.
    pub machines: BTreeMap<String, Shared<MachineStatus>>,
    /// The applications by name.
    pub applications: BTreeMap<String, ApplicationStatus>,
    /// All relations.
    pub relations: Vec<RelationStatus>,
    /// Documents that are damaged on the controller's disk, so that what they contain is left out: at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// Why the store accepts no changes, so that agents cannot report: the status may be older than it seems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Cause>,
}

/// The model itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStatus {
    /// Its name.
    pub name: String,
    /// Its uuid.
    pub uuid: Uuid,
    /// Its life.
    pub life: Life,
    /// The displayed name of the controller: `here`.
    pub controller: String,
    /// The name of the cloud.
    pub cloud: String,
    /// The region of the cloud.
    pub region: String,
    /// The Juju version: [`crate::JUJU_VERSION`].
    pub version: String,
    /// Its status.
    pub status: StatusInfo<ModelState>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineStatus {
    /// Its uuid.
    pub uuid: Uuid,
    /// Its life.
    pub life: Life,
    /// The status of its agent.
    pub agent: StatusInfo<MachineAgentStatus>,
    /// The status of its instance.
    pub instance: StatusInfo<InstanceStatus>,
    /// The address of its units.
    pub address: String,
    /// The provider's name for its instance; none if the provider has not started it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Its operating system.
    pub base: Base,
    /// The constraints under which it was added.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    #[schemars(with = "String")]
    pub constraints: Constraints,
    /// Its hardware; none until its instance exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationStatus {
    /// Its uuid.
    pub uuid: Uuid,
    /// Its life.
    pub life: Life,
    /// The name of its charm.
    pub charm_name: String,
    /// The charm URL: `local:web-0`.
    pub charm_url: String,
    /// The revision of the charm in this model.
    pub charm_revision: u32,
    /// The version that the charm declares in its file `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charm_version: Option<String>,
    /// The operating system of its units.
    pub base: Base,
    /// Whether it is exposed.
    pub exposed: bool,
    /// Whether its charm is a subordinate charm.
    pub subordinate: bool,
    /// Whether it is a fake application, whose units have no agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fake: bool,
    /// Its endpoints and the further bindings of its charm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<String>,
    /// For a subordinate: the applications of its principals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subordinate_to: Vec<String>,
    /// The last value of `application-version-set`; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload_version: String,
    /// Its status.
    pub status: StatusInfo<WorkloadStatus>,
    /// Its relations, by its own endpoint.
    #[serde(default)]
    pub relations: BTreeMap<String, Vec<RelatedApplication>>,
    /// All its units. Subordinate units are included and name their principal.
    pub units: BTreeMap<UnitName, Shared<UnitStatus>>,
}

/// One relation from the perspective of an application. In a peer relation, the related application is the
/// application itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedApplication {
    /// The related application.
    pub application: String,
    /// The interface of the relation.
    pub interface: String,
    /// The scope of the relation.
    pub scope: Scope,
}

/// A unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitStatus {
    /// Its uuid.
    pub uuid: Uuid,
    /// Its effective life.
    pub life: Life,
    /// The name of its machine.
    pub machine: String,
    /// For a subordinate: its principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    /// Whether it is the leader of its application.
    pub leader: bool,
    /// The workload status.
    pub workload: StatusInfo<WorkloadStatus>,
    /// The agent status. `idle` only if nothing that concerns the unit is pending.
    pub agent: StatusInfo<AgentStatus>,
    /// While `agent` is executing: what runs, or is about to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Its address.
    pub address: String,
    /// Its open ports, in order: `80/tcp`, `8000-8100/tcp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRange>,
}

/// One end of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationEnd {
    /// The application.
    pub application: String,
    /// The endpoint.
    pub endpoint: String,
    /// The role of the endpoint.
    pub role: Role,
}

/// A relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelationStatus {
    /// Its uuid.
    pub uuid: Uuid,
    /// Its number.
    pub number: RelationNumber,
    /// Its effective life.
    pub life: Life,
    /// Its interface.
    pub interface: String,
    /// Its scope.
    pub scope: Scope,
    /// Its ends, the provider first; a peer relation has one.
    pub ends: Vec<RelationEnd>,
    /// Its status.
    pub status: StatusInfo<RelationState>,
}
