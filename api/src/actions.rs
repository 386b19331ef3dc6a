//! Actions: queueing them and reading their state.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::terms::names::UnitName;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;

requests! { ActionRequests {
    Run = post "/v1/models/{model}/run", Writer => RunActionResponse;
    GetAction = post "/v1/models/{model}/action", Reader => ActionInfo;
    ListActions = get "/v1/models/{model}/actions", Reader => Vec<ActionInfo>;
} }

/// An action's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAction {
    pub id: u64,
}

/// All actions that are kept, oldest first, without their results and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListActions;

/// Queues an action. `NotFound` when the unit is unknown; `Invalid` with the words `(not found)` when its charm has no
/// such action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `web/0` or `web/leader`.
    pub unit: String,
    pub action: String,
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunActionResponse {
    /// Of the task; also its operation's.
    pub id: u64,
    /// The unit itself, where `run` named a leader.
    pub unit: UnitName,
    pub revision: u64,
}

/// A task, under way or done (spec/clients.md 2.4 "task").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionInfo {
    pub id: u64,
    pub unit: UnitName,
    pub action: String,
    pub status: ActionStatus,
    /// What `action-fail` said, or why it could not run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// As the action set them: dotted keys nested, values strings. `return-code` (a number) once its process ended;
    /// `stdout` and `stderr` when they are not empty.
    #[serde(default)]
    pub results: BTreeMap<String, Value>,
    #[serde(default)]
    pub log: Vec<(i64, String)>,
    pub enqueued_ms: i64,
    #[serde(default)]
    pub started_ms: Option<i64>,
    #[serde(default)]
    pub completed_ms: Option<i64>,
}
