//! The requests of a machine agent. The machine is that of the authenticated caller.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::Base;
pub use state::terms::assignment::{Assigned, Existence};
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::hardware::Hardware;
use state::terms::health::UnitHealth;
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::terms::storage::{StorageId, StorageReport};
pub use state::views::machine_view::MachineView;
use std::collections::BTreeMap;

requests! { MachineAgentRequests {
    GetUnitExistence = post "/v1/models/{model}/machine-agents/{agent}/existence", MachineAgent => Existence;
    SetUnitToken = post "/v1/models/{model}/machine-agents/{agent}/unit-token", MachineAgent => ();
    RemoveDeadUnit = post "/v1/models/{model}/machine-agents/{agent}/remove-unit", MachineAgent => ();
    ConfirmRecall = post "/v1/models/{model}/machine-agents/{agent}/confirm-recall", MachineAgent => ();
    ReportPresence = post "/v1/models/{model}/machine-agents/{agent}/presence", MachineAgent => PresenceResponse;
    ReportUnitHealth = post "/v1/models/{model}/machine-agents/{agent}/unit-health", MachineAgent => ();
    ReportObstructedRecalls = post "/v1/models/{model}/machine-agents/{agent}/obstructed-recalls", MachineAgent => ();
    ReportDiskUsage = post "/v1/models/{model}/machine-agents/{agent}/disk-usage", MachineAgent => ();
    ReportStorage = post "/v1/models/{model}/machine-agents/{agent}/storage", MachineAgent => ();
    ReportMachineDead = post "/v1/models/{model}/machine-agents/{agent}/dead", MachineAgent => ();
    ReportUninstalled = post "/v1/models/{model}/machine-agents/{agent}/uninstalled", UninstallingMachineAgent => ();
    Enrol = post "/v1/models/{model}/machine-agents/{agent}/enrol", Enrolment => ();
} watch {
    WatchMachine = get "/v1/models/{model}/machine-agents/{agent}/watch", MachineAgent => MachineWatchEvent;
} }

/// Watches the machine: sends the whole view at once and after every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchMachine;

/// Returns the life of the unit with this uuid, or whether its tombstone is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetUnitExistence {
    /// The unit.
    pub unit: Uuid,
}

/// Sets the token of a unit on this machine. The caller has created and stored the token before, so that a
/// repeated request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetUnitToken {
    /// The unit.
    pub unit: Uuid,
    /// The token.
    pub token: String,
}

/// Removes a Dead unit whose agent was recalled, or a Dying unit that was never deployed (spec F.2).
/// Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveDeadUnit {
    /// The unit.
    pub unit: Uuid,
}

/// Reports that the agent is running, every [`crate::PRESENCE_INTERVAL_MS`]. An open stream does not prove that,
/// because the stream of a stopped process remains open. The response shows the agent that its view is current.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportPresence {
    /// The position of the agent's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<Position>,
    /// The boot id of the machine; empty if it is not known. A unit whose agent has attached in another boot is not idle.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

/// The response to a report of presence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PresenceResponse {
    /// The agent's view has not changed up to this position. None if the watch cannot confirm that.
    pub current_to: Option<Position>,
}

/// Reports what the agent observes of unit agents: how they ended, and what prevents them from continuing. Only changes
/// are reported; at the start of a watch of the machine, no unit has a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportUnitHealth {
    /// The units by uuid. Units of other machines are ignored.
    pub units: BTreeMap<Uuid, UnitHealth>,
}

/// Reports the removed units whose recall cannot be confirmed, because a folder on this machine belongs to them or may
/// belong to them. Each report replaces the last one; the start of a watch of the machine deletes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportObstructedRecalls {
    /// What prevents the confirmation, by the uuid of the unit.
    pub recalls: BTreeMap<Uuid, String>,
}

/// Reports what the agent has done with an instance of storage of this machine. Idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportStorage {
    /// The id.
    pub id: StorageId,
    /// The instance: a report about another one of this id is ignored.
    pub instance: Uuid,
    /// What was done.
    pub report: StorageReport,
}

/// Reports that this Dying machine has no units left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportMachineDead;

/// Confirms that no folder of a removed unit is left on this machine. The controller may then delete its tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmRecall {
    /// The unit.
    pub unit: Uuid,
}

/// Reports what units of this machine take on its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportDiskUsage {
    /// The units by uuid.
    pub units: BTreeMap<Uuid, UnitDiskUsage>,
    /// The folders of units of which the controller has no record, in bytes.
    #[serde(default)]
    pub quarantined_bytes: u64,
}

/// Reports that the agent of this Dead or removed machine has removed everything that it had installed. Its token is
/// revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportUninstalled;

/// Replaces the enrolment token of a manually provisioned machine by the token that its agent created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enrol {
    /// The new token.
    pub token: String,
    /// The address of the machine.
    pub address: String,
    /// Its operating system; none if its os-release file does not name one.
    #[serde(default)]
    pub base: Option<Base>,
    /// Its hardware; none if it is not known.
    #[serde(default)]
    pub hardware: Option<Hardware>,
}

/// One event of the watch of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineWatchEvent {
    /// The machine has changed.
    View(MachineView),
    /// The machine has not changed up to this position. Sent only if no report of presence has confirmed that for
    /// [`crate::HEARTBEAT_MS`].
    Heartbeat(Position),
}
