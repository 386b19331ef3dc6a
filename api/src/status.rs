//! The status of a whole model at one revision.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::{Base, Role, Scope};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::position::Position;
use state::unit::activity::Activity;
use std::collections::BTreeMap;

requests! { StatusRequests {
    GetStatus = get "/v1/models/{model}/status", Reader => Status;
} }

/// The whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStatus;

/// A status as it is to be shown: what is derived (an agent's error shown as the workload's, an application's worst
/// unit; spec/uniter.md F.5) is derived already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusInfo {
    pub current: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

/// A whole model at one revision, by names. The text forms (spec/clients.md 2.4, 3.3) are the command's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub position: Position,
    /// The controller's clock when it answered.
    pub now_ms: i64,
    pub model: ModelStatus,
    pub machines: BTreeMap<String, MachineStatus>,
    pub applications: BTreeMap<String, ApplicationStatus>,
    pub relations: Vec<RelationStatus>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    pub name: String,
    pub uuid: Uuid,
    pub life: Life,
    /// Name of the controller people see: `here`.
    pub controller: String,
    pub cloud: String,
    pub region: String,
    /// [`crate::JUJU_VERSION`].
    pub version: String,
    pub status: StatusInfo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineStatus {
    pub uuid: Uuid,
    pub life: Life,
    /// Of its agent: pending, started, stopped, down, error.
    pub agent: StatusInfo,
    /// Of the machine itself: pending, running, ...
    pub instance: StatusInfo,
    pub address: String,
    pub instance_id: String,
    pub base: Base,
    pub zone: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    pub uuid: Uuid,
    pub life: Life,
    pub charm_name: String,
    pub charm_url: String,
    pub charm_revision: u32,
    /// The charm's own word for its version, of its file `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charm_version: Option<String>,
    pub base: Base,
    pub exposed: bool,
    pub subordinate: bool,
    /// The principals' applications, of a subordinate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subordinate_to: Vec<String>,
    /// What `application-version-set` said last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload_version: String,
    pub status: StatusInfo,
    /// By own endpoint.
    #[serde(default)]
    pub relations: BTreeMap<String, Vec<RelatedApplication>>,
    /// All units, subordinate ones too: those name their principal.
    pub units: BTreeMap<UnitName, UnitStatus>,
}

/// One relation as an application sees it. For a peer relation the related application is itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedApplication {
    pub application: String,
    pub interface: String,
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitStatus {
    pub uuid: Uuid,
    pub life: Life,
    pub machine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    pub leader: bool,
    pub workload: StatusInfo,
    /// `idle` only when nothing that concerns the unit is undone.
    pub agent: StatusInfo,
    /// While `agent` is executing: what runs, or is about to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    pub address: String,
    /// `80/tcp`, `8000-8100/tcp`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationEnd {
    pub application: String,
    pub endpoint: String,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationStatus {
    pub uuid: Uuid,
    pub number: RelationNumber,
    pub life: Life,
    pub interface: String,
    pub scope: Scope,
    /// One end for a peer relation; else the provider first.
    pub ends: Vec<RelationEnd>,
    /// joining, joined, suspending, suspended, broken, error.
    pub status: StatusInfo,
}
