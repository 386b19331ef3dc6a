//! What a machine agent asks of the controller. The machine is the session's.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::position::Position;
use std::collections::BTreeMap;

requests! { MachineAgentRequests {
    UnitFate = post "/v1/models/{model}/machine-agents/{agent}/fate", MachineAgent => Fate;
    SetUnitToken = post "/v1/models/{model}/machine-agents/{agent}/unit-token", MachineAgent => ();
    RemoveDeadUnit = post "/v1/models/{model}/machine-agents/{agent}/remove-unit", MachineAgent => ();
    ReportPresence = post "/v1/models/{model}/machine-agents/{agent}/presence", MachineAgent => ();
    ReportMachineDead = post "/v1/models/{model}/machine-agents/{agent}/dead", MachineAgent => ();
    ReportUninstalled = post "/v1/models/{model}/machine-agents/{agent}/uninstalled", MachineAgent => ();
    Enrol = post "/v1/models/{model}/machine-agents/{agent}/enrol", Enrolment => ();
} watch {
    WatchMachine = get "/v1/models/{model}/machine-agents/{agent}/watch", MachineAgent => MachineWatchEvent;
} }

/// Watches the machine's view: whole at once, and again whenever it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchMachine;

/// What is known of a unit's uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFate {
    pub unit: Uuid,
}

/// Sets the token of a unit on this machine. The caller made it and has stored it first, so a repeated request
/// changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUnitToken {
    pub unit: Uuid,
    pub token: String,
}

/// Removes a Dead unit after its recall, or a Dying one that was never deployed (spec F.2). Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDeadUnit {
    pub unit: Uuid,
}

/// The agent is running: sent every [`crate::HEARTBEAT_MS`]. An open stream is no evidence of that, since the stream
/// of a stopped process stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportPresence;

/// This Dying machine has no units left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportMachineDead;

/// This Dead machine's agent has removed what it had installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportUninstalled;

/// A manually provisioned machine replaces its enrolment token by the token that it made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    pub token: String,
    pub address: String,
}

/// A unit this machine is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    pub name: UnitName,
    /// Effective life; Dead = its agent has finished, recall it.
    pub life: Life,
}

/// What this machine is to run, whole, as of one position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineView {
    pub position: Position,
    pub model: Uuid,
    pub name: String,
    pub address: String,
    pub life: Life,
    pub units: BTreeMap<Uuid, Assigned>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineWatchEvent {
    View(MachineView),
    Heartbeat(Position),
}

/// What the controller knows of a unit's uuid (design 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Known(Life),
    /// Removed, in this history.
    Tombstone,
    /// Nothing is known: never a reason to tear down.
    Unknown,
}
