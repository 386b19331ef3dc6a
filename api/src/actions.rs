//! Requests about actions: enqueueing and cancelling them, and reading their progress.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::terms::names::UnitName;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;

requests! { ActionRequests {
    EnqueueAction = post "/v1/models/{model}/enqueue-action", Writer => EnqueueActionResponse;
    EnqueueExec = post "/v1/models/{model}/enqueue-exec", Admin => EnqueueActionResponse;
    CancelAction = post "/v1/models/{model}/cancel-action", Writer => CancelActionResponse;
    GetAction = post "/v1/models/{model}/action", Reader => ActionInfo;
    ListActions = get "/v1/models/{model}/actions", Reader => Vec<ActionInfo>;
} }

/// Cancels an action. One that its unit has not started is cancelled at once; the processes of one that runs are ended
/// within ten seconds, and it is shown as aborting until then. A cancelled one stays so. `Invalid` if it has finished,
/// `NotFound` if it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelAction {
    /// The number of the task.
    pub id: u64,
}

/// The cancelled action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelActionResponse {
    /// The action.
    pub action: ActionInfo,
    /// The revision of the store that contains the change.
    pub revision: u64,
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

/// Enqueues an action. `NotFound` if the unit does not exist; `UnknownAction` if its charm has no such action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnqueueAction {
    /// `web/0` or `web/leader`.
    pub unit: String,
    /// The name of the action.
    pub action: String,
    /// The parameters, without the defaults of the charm.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
}

/// Enqueues commands that run in the context of a unit, beside its actions (`juju exec`). `NotFound` if the unit does not
/// exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnqueueExec {
    /// `web/0` or `web/leader`.
    pub unit: String,
    /// A script for bash.
    pub commands: String,
}

/// The enqueued action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnqueueActionResponse {
    /// The number of the task, which is also the number of its operation.
    pub id: u64,
    /// The unit that runs it, also if `web/leader` was requested.
    pub unit: UnitName,
    /// The revision of the store that contains the change.
    pub revision: u64,
}

/// A task: an action that is enqueued, running or finished (spec/clients.md 2.4 "task").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActionInfo {
    /// The number of the task.
    pub id: u64,
    /// The unit that runs it.
    pub unit: UnitName,
    /// The name of the action; `juju-exec` for commands.
    pub action: String,
    /// The progress.
    pub status: ActionStatus,
    /// The message of `action-fail`, or why the action could not run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The results as the action set them: dotted keys are nested, values are strings. `return-code` (a number)
    /// once the process has ended; `stdout` and `stderr` if they are not empty.
    #[serde(default)]
    pub results: BTreeMap<String, Value>,
    /// The lines of `action-log`, each with its time in milliseconds.
    #[serde(default)]
    pub log: Vec<(i64, String)>,
    /// When it was enqueued.
    pub enqueued_ms: i64,
    /// When the agent started it.
    #[serde(default)]
    pub started_ms: Option<i64>,
    /// When it finished.
    #[serde(default)]
    pub completed_ms: Option<i64>,
}
