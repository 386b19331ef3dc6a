//! Machines as users and the provisioner see them.

use crate::changes::Changed;
use crate::removal::Force;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::life::Life;
use state::terms::names::Uuid;

requests! { MachineRequests {
    AddMachines = post "/v1/models/{model}/add-machines", Writer => AddedMachines;
    RemoveMachine = post "/v1/models/{model}/remove-machine", Writer => Changed;
    RetryProvisioning = post "/v1/models/{model}/retry-provisioning", Writer => Changed;
    CreateEnrolmentToken = post "/v1/models/{model}/enrolment-token", Admin => EnrolmentToken;
} }

/// Destroys a machine. `Blocked` while a unit on it is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveMachine {
    pub machine: String,
    #[serde(default)]
    pub force: Force,
    /// The instance stays, without an agent, and is the user's.
    #[serde(default)]
    pub keep_instance: bool,
}

/// Retries now what the provider of a machine failed at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryProvisioning {
    pub machine: String,
}

/// A fresh token for a manually provisioned machine that has not enrolled yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateEnrolmentToken {
    pub machine: String,
}

/// Adds machines without units. The provider makes those that are not manual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddMachines {
    pub count: u32,
    /// A person brings them.
    #[serde(default)]
    pub manual: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedMachines {
    pub names: Vec<String>,
    pub revision: u64,
}

/// What a manually provisioned machine enrols with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentToken {
    pub machine: Uuid,
    pub name: String,
    pub model: Uuid,
    /// Good for one use, until `expires_ms`.
    pub token: String,
    pub expires_ms: i64,
}

/// A machine as its provider (the supervisor of `pintle up`) needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    pub uuid: Uuid,
    pub name: String,
    pub address: String,
    pub life: Life,
    /// A person brings it.
    #[serde(default)]
    pub manual: bool,
    /// Its instance stays when it goes.
    #[serde(default)]
    pub kept: bool,
    /// Of one that is Dead and kept: nobody waits for its agent any more.
    #[serde(default)]
    pub left: bool,
    /// Units are assigned to it.
    #[serde(default)]
    pub occupied: bool,
    /// It is Dying, and one of them has lived: that one cannot go without an agent that brings it to its end.
    #[serde(default)]
    pub lived: bool,
    /// The nonce of its instance, once its start was recorded.
    #[serde(default)]
    pub nonce: Option<Uuid>,
    /// The instance, once it is there.
    #[serde(default)]
    pub instance_id: Option<String>,
    /// After a failure: when the provider tries again.
    #[serde(default)]
    pub retry_ms: Option<i64>,
}
