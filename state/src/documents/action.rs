//! Documents of actions, and the index of those that are not finished.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::{UnitName, Uuid};
use crate::terms::status::ActionStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionDoc {
    pub id: u64,
    pub unit: Uuid,
    pub unit_name: UnitName,
    pub name: String,
    pub params: BTreeMap<String, Value>,
    pub status: ActionStatus,
    pub message: String,
    pub results: BTreeMap<String, Value>,
    pub log: Vec<(i64, String)>,
    pub enqueued_ms: i64,
    pub started_ms: Option<i64>,
    pub completed_ms: Option<i64>,
}

impl Model {
    pub fn action(&self, id: u64) -> Key<ActionDoc> {
        self.other(Kind::Action, format_args!("{id:010}"))
    }
    /// Actions of a unit that are not finished; true = its agent has begun it.
    pub fn action_of(&self, unit: Uuid, id: u64) -> Key<bool> {
        self.other(Kind::ActionOf, format_args!("{unit}/{id:010}"))
    }
    pub fn actions_of(&self, unit: Uuid) -> String {
        self.below(Kind::ActionOf, &[unit])
    }
}
