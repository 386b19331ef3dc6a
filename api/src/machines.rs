//! Requests about machines, of users and of the provisioner.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::charm::Base;
use state::terms::constraints::Constraints;
use state::terms::force::Force;
use state::terms::names::Uuid;
use state::terms::position::Committed;

requests! { MachineRequests {
    AddMachines = post "/v1/models/{model}/add-machines", Writer => Committed<Vec<String>>;
    RemoveMachine = post "/v1/models/{model}/remove-machine", Writer => WriteResponse;
    RetryProvisioning = post "/v1/models/{model}/retry-provisioning", Writer => WriteResponse;
    CreateEnrolmentToken = post "/v1/models/{model}/enrolment-token", Admin => EnrolmentToken;
} }

/// Destroys a machine. `Blocked` while a unit on it is Alive, or storage on it is not being removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveMachine {
    /// The name of the machine.
    pub machine: String,
    /// Whether it is removed by force.
    #[serde(default)]
    pub force: Force,
    /// Whether the instance is kept: its agent is uninstalled, and it belongs to the user from then on.
    #[serde(default)]
    pub keep_instance: bool,
}

/// Makes the provider of a machine retry a failed operation now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryProvisioning {
    /// The name of the machine.
    pub machine: String,
}

/// Creates a new enrolment token for a manually provisioned machine that has not enrolled yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEnrolmentToken {
    /// The name of the machine.
    pub machine: String,
}

/// Adds machines without units, and returns their names. The provider creates instances for those that are not manually
/// provisioned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMachines {
    /// The number of machines.
    pub count: u32,
    /// Whether the machines are manually provisioned.
    #[serde(default)]
    pub manual: bool,
    /// The operating system. If it is absent, or the provider does not have it, the machine has the default of the
    /// provider.
    #[serde(default)]
    pub base: Option<Base>,
    /// Their constraints, in the form in which they are typed: `mem=8G cores=2`. They are shown only.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    #[schemars(with = "String")]
    pub constraints: Constraints,
}

/// The credentials with which a manually provisioned machine enrols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnrolmentToken {
    /// The uuid of the machine.
    pub machine: Uuid,
    /// The name of the machine.
    pub name: String,
    /// The uuid of the model.
    pub model: Uuid,
    /// The token, valid for one use until `expires_ms`.
    pub token: String,
    /// When the token expires.
    pub expires_ms: i64,
}
