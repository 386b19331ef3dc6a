//! Documents of actions, and the index of the actions that are not finished.
//!
//! `lifecycle::action` writes them; the unit's view shows the unfinished ones to its agent.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::failure_reason::FailureReason;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::process_result::ProcessResult;
use crate::terms::refusal::RefusalReason;
use crate::terms::status::ActionStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One action (a task) of one unit. It is kept after it has finished, until it is pruned. Users receive it as it is
/// stored, without its parameters (spec/clients.md 2.4 "task").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionDoc {
    /// The number of the task, unique in the model.
    pub id: u64,
    /// The number of its operation: that of the first task of the operation.
    pub operation: u64,
    /// The unit that runs it.
    pub unit: Uuid,
    /// The name of the unit, which outlives the unit itself.
    pub unit_name: UnitName,
    /// The name of the machine, if a user requested the commands for it: the unit runs them outside of its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The name of the action in the charm, or [`EXEC`](crate::terms::commands::EXEC).
    pub name: String,
    /// The parameters, with the defaults of the charm inserted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// The progress of the action.
    pub status: ActionStatus,
    /// Why the action has failed; none if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ActionFailure>,
    /// What the action set with `action-set`: dotted keys are nested, values are strings.
    #[serde(default)]
    pub results: BTreeMap<String, Value>,
    /// How the process has exited; none if it has not, or was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessResult>,
    /// The lines of `action-log`.
    #[serde(default)]
    pub log: Vec<ActionLogLine>,
    /// When the action was queued.
    pub enqueued_ms: i64,
    /// When the agent started it; none if it has not started.
    pub started_ms: Option<i64>,
    /// When it finished; none if it has not finished.
    pub completed_ms: Option<i64>,
}

/// A line of `action-log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionLogLine {
    /// The number of its report within the run of the action.
    pub report: u32,
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// The text.
    pub text: String,
}

/// Why an action has failed. The English is in `api::text::action`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ActionFailure {
    /// The charm called `action-fail` with this message.
    ActionFail {
        /// The message of the charm.
        message: String,
    },
    /// The process of the action failed.
    Process {
        /// How it failed.
        reason: FailureReason,
    },
    /// The charm has no program for the action.
    NoProgram,
    /// The controller refused the writes of the action.
    Refused {
        /// Why.
        refusal: Box<RefusalReason>,
    },
    /// The unit has passed the number of the action, but the restored store has no record of a run: whether the action
    /// ran is unknown.
    Lost,
    /// The unit was removed before it had finished the action.
    UnitRemoved,
}

impl Model {
    /// The action of this number.
    pub fn action(&self, id: u64) -> Key<ActionDoc> {
        self.key_with_rest(Kind::Action, format_args!("{id:010}"))
    }
    /// Index of the unfinished actions of a unit, with their status.
    pub fn action_of(&self, unit: Uuid, id: u64) -> Key<ActionStatus> {
        self.key_with_rest(Kind::ActionOf, format_args!("{unit}/{id:010}"))
    }
    /// The prefix of [`Self::action_of`] for one unit.
    pub fn actions_of(&self, unit: Uuid) -> String {
        self.prefix_below(Kind::ActionOf, &[unit])
    }
}
