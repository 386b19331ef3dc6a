//! Statuses that charms and agents set.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A status a charm or an agent set. `number` orders the sends of one unit, so that a late one never wins
/// (design 4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusDoc {
    pub status: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
    pub since_ms: i64,
    pub number: (u64, u32),
}

impl Model {
    /// Workload status, set by the charm.
    pub fn unit_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::UnitStatus, &[id])
    }
    /// Agent status: allocating, executing, idle, error.
    pub fn agent_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::AgentStatus, &[id])
    }
    pub fn application_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::ApplicationStatus, &[id])
    }
}
