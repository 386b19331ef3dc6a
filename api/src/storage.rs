//! Requests of users about storage. What machine agents report is in `machine_agent`.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::names::UnitName;
use state::terms::position::Committed;
use state::terms::storage::{StorageDirective, StorageId};
use std::collections::BTreeMap;

pub use state::status::storage::{StorageInfo, StorageStatus};

requests! { StorageRequests {
    AddStorage = post "/v1/models/{model}/add-storage", Writer => Committed<Vec<StorageId>>;
    AttachStorage = post "/v1/models/{model}/attach-storage", Writer => WriteResponse;
    DetachStorage = post "/v1/models/{model}/detach-storage", Writer => WriteResponse;
    RemoveStorage = post "/v1/models/{model}/remove-storage", Writer => WriteResponse;
    ListStorage = get "/v1/models/{model}/storage", Reader => BTreeMap<StorageId, StorageInfo>;
    GetStorage = post "/v1/models/{model}/show-storage", Reader => StorageInfo;
} }

/// Creates further storage for a unit, and returns its ids. `Invalid` if the charm does not declare it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddStorage {
    /// The unit.
    pub unit: UnitName,
    /// The name of the storage in the charm.
    pub name: String,
    /// What is requested.
    pub directive: StorageDirective,
}

/// Attaches existing storage that no unit has to a unit of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachStorage {
    /// The unit.
    pub unit: UnitName,
    /// The storage.
    pub storage: StorageId,
}

/// Detaches storage from its unit. Its content stays on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetachStorage {
    /// The storage.
    pub storage: StorageId,
}

/// Removes storage with its content. `Busy` if a unit has it, unless forced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveStorage {
    /// The storage.
    pub storage: StorageId,
    /// Whether it is detached first.
    #[serde(default)]
    pub force: bool,
    /// Whether its content is kept. Refused, because no pool can release a content.
    #[serde(default)]
    pub keep_content: bool,
}

/// Returns all storage of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListStorage;

/// Returns one instance of storage. `NotFound` if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStorage {
    /// The storage.
    pub storage: StorageId,
}
