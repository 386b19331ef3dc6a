//! Machines as users see them.

use serde::{Deserialize, Serialize};
use state::life::Life;
use state::names::Uuid;

/// New machines.
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

/// What a machine that a person brings introduces itself with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
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
