//! The requests of the provisioner of `pintle up`: machines, and reports about their instances.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::machine::provision::DesiredMachine;
use state::terms::assignment::Existence;
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
pub use state::transitions::instance::ProvisioningReport;

requests! { ProvisioningRequests {
    ListMachines = get "/v1/models/{model}/machines", Reader => Vec<DesiredMachine>;
    ReportInstance = post "/v1/models/{model}/provisioned", Admin => Uuid;
    GetMachineExistence = post "/v1/models/{model}/machine-existence", Admin => Existence;
    SetMachineToken = post "/v1/models/{model}/machine-token", Admin => ();
    ReportMachineAgentExits = post "/v1/models/{model}/machine-agent-exits", Admin => ();
    RemoveDeadMachine = post "/v1/models/{model}/machine-removed", Admin => ();
} }

/// Returns all machines of a model, for their provisioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListMachines;

/// Records what the provider reports about a machine. Returns the nonce under which the instance has to be, or
/// was, created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportInstance {
    /// The machine.
    pub machine: Uuid,
    /// The report.
    pub what: ProvisioningReport,
}

/// Returns the life of the machine with this uuid, or whether its tombstone is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetMachineExistence {
    /// The machine.
    pub machine: Uuid,
}

/// Sets the token of a machine's agent. The caller has created and stored the token before, so that a repeated
/// request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetMachineToken {
    /// The machine.
    pub machine: Uuid,
    /// The token.
    pub token: String,
}

/// Reports how the process of a machine's agent has ended, which ends at each start: it cannot report that itself. The
/// report is kept until the agent sends a request, the next report, or the end of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportMachineAgentExits {
    /// The machine.
    pub machine: Uuid,
    /// How it ended; none if it runs again for long, which ends the last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits: Option<MachineAgentExits>,
}

/// Removes the record of a Dead machine whose instance the provider has terminated. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveDeadMachine {
    /// The machine.
    pub machine: Uuid,
}
