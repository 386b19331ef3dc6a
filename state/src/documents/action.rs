//! Documents of actions, and the index of the actions that are not finished.
//!
//! `operations::action` writes them; the unit's view shows the unfinished ones to its agent.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::{UnitName, Uuid};
use crate::terms::refusal::RefusalReason;
use crate::terms::status::ActionStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One action (a task) of one unit. It is kept after it has finished, until it is pruned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionDoc {
    /// The number of the task, unique in the model.
    pub id: u64,
    /// The unit that runs it.
    pub unit: Uuid,
    /// The name of the unit, which outlives the unit itself.
    pub unit_name: UnitName,
    /// The name of the action in the charm, or [`EXEC`](crate::unit::commands::EXEC).
    pub name: String,
    /// The parameters, with the defaults of the charm inserted.
    pub params: BTreeMap<String, Value>,
    /// The progress of the action.
    pub status: ActionStatus,
    /// The message of `action-fail`, or why the action could not run; empty if there is none.
    pub message: String,
    /// What the action set with `action-set`, and `return-code`, `stdout` and `stderr` of its process.
    pub results: BTreeMap<String, Value>,
    /// Why the controller refused the writes of the action, which has failed for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalReason>,
    /// The lines of `action-log`, each with its time in milliseconds.
    pub log: Vec<(i64, String)>,
    /// When the action was queued.
    pub enqueued_ms: i64,
    /// When the agent started it; none if it has not started.
    pub started_ms: Option<i64>,
    /// When it finished; none if it has not finished.
    pub completed_ms: Option<i64>,
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
