//! Requests about actions: enqueueing and cancelling them, and reading their progress.

use crate::entity_choice::UnitChoice;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::Action;
use state::terms::position::Committed;
use std::collections::BTreeMap;

pub use state::documents::prelude::{ActionDoc, ActionFailure, ActionLogLine};

requests! { ActionRequests {
    EnqueueAction = post "/v1/models/{model}/enqueue-action", Writer => Committed<ActionDoc>;
    EnqueueExec = post "/v1/models/{model}/enqueue-exec", Admin => Committed<ActionDoc>;
    EnqueueMachineExec = post "/v1/models/{model}/enqueue-machine-exec", Admin => Committed<ActionDoc>;
    CancelAction = post "/v1/models/{model}/cancel-action", Writer => Committed<ActionDoc>;
    GetAction = post "/v1/models/{model}/action", Reader => ActionDoc;
    ListActions = get "/v1/models/{model}/actions", Reader => Vec<ActionDoc>;
    GetDeclaredActions = post "/v1/models/{model}/declared-actions", Reader => BTreeMap<String, Action>;
} }

/// Cancels an action and returns it. An action that its unit has not started is cancelled at once. The processes of a
/// running action are ended within ten seconds; until then it is shown as aborting. Repeating the request changes
/// nothing. `Invalid` if the action has finished, `NotFound` if it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelAction {
    /// The number of the task.
    pub id: u64,
}

/// Returns one action. `NotFound` if it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetAction {
    /// The number of the task.
    pub id: u64,
}

/// Returns all actions that are stored, oldest first, without their results and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListActions;

/// Returns the actions that the charm of an application declares, by name. `NotFound` if the application does not
/// exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDeclaredActions {
    /// The name of the application.
    pub application: String,
}

/// Enqueues an action and returns it, without its parameters. `NotFound` if the unit or the operation does not exist;
/// `UnknownAction` if its charm has no such action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnqueueAction {
    /// The unit.
    pub unit: UnitChoice,
    /// The name of the action.
    pub action: String,
    /// The parameters, without the defaults of the charm.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// The operation to which the task belongs, by its first task; none for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
}

/// Enqueues commands that run in the context of a unit, beside its actions (`juju exec`). `NotFound` if the unit does
/// not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnqueueExec {
    /// The unit that runs them.
    pub unit: UnitChoice,
    /// A script for bash.
    pub commands: String,
    /// The operation to which the task belongs, by its first task; none for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
}

/// Enqueues commands that run on a machine, outside of the context of a unit (`juju exec --machine`). The agent of a unit of
/// the machine runs them. `NotFound` if the machine does not exist; `Invalid` if no unit is assigned to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnqueueMachineExec {
    /// The name of the machine.
    pub machine: String,
    /// A script for bash.
    pub commands: String,
    /// The operation to which the task belongs, by its first task; none for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
}
