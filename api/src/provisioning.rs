//! What the provisioner of `pintle up` asks and reports about its instances.

use crate::machine_agent::Fate;
use crate::machines::MachineInfo;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;

requests! { ProvisioningRequests {
    ListMachines = get "/v1/models/{model}/machines", Reader => Vec<MachineInfo>;
    ReportInstance = post "/v1/models/{model}/provisioned", Admin => Uuid;
    MachineFate = post "/v1/models/{model}/machine-fate", Admin => Fate;
    SetMachineToken = post "/v1/models/{model}/machine-token", Admin => ();
    RemoveDeadMachine = post "/v1/models/{model}/machine-removed", Admin => ();
} }

/// All machines, for their provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMachines;

/// Records what a provider says of a machine; answers the nonce under which its instance is to be, or was, made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportInstance {
    pub machine: Uuid,
    pub what: ProvisioningReport,
}

/// What is known of a machine's uuid, in any history of this controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFate {
    pub machine: Uuid,
}

/// Sets the token of a machine's agent. The caller made it and has stored it first, so a repeated request changes
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMachineToken {
    pub machine: Uuid,
    pub token: String,
}

/// The provider has taken a Dead machine away: its record is removed. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDeadMachine {
    pub machine: Uuid,
}

/// What a provider says of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisioningReport {
    /// An instance is about to be made, under this nonce if none is recorded.
    Starting { provider: String, nonce: Uuid },
    /// It is there.
    Started { instance_id: String, address: String },
    /// It could not be made, kept, or taken away.
    Failed { message: String },
    /// There is none and none will be: the Dying machine is Dead.
    Absent,
}
