//! The requests of the provisioner of `pintle up`: machines, and reports about their instances.

use crate::machines::MachineInfo;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::Base;
use state::terms::assignment::Existence;
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;

requests! { ProvisioningRequests {
    ListMachines = get "/v1/models/{model}/machines", Reader => Vec<MachineInfo>;
    ReportInstance = post "/v1/models/{model}/provisioned", Admin => Uuid;
    GetMachineExistence = post "/v1/models/{model}/machine-existence", Admin => Existence;
    SetMachineToken = post "/v1/models/{model}/machine-token", Admin => ();
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

/// Returns what the controller has stored about the uuid of a machine, in any store generation.
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

/// Removes the record of a Dead machine whose instance the provider has terminated. Idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveDeadMachine {
    /// The machine.
    pub machine: Uuid,
}

/// What a provider reports about one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisioningReport {
    /// An instance is about to be created, under this nonce unless one is recorded already.
    Starting {
        /// The provider.
        provider: ProviderKind,
        /// The proposed nonce.
        nonce: Uuid,
    },
    /// The instance exists.
    Started {
        /// The provider's name for the instance.
        instance_id: String,
        /// The address of the units on it.
        address: String,
        /// Its operating system; none if it does not name one.
        base: Option<Base>,
    },
    /// The instance could not be created, checked or terminated.
    Failed {
        /// The error of the provider.
        message: String,
    },
    /// There is no instance and there will be none: the Dying machine is Dead.
    Absent,
}
