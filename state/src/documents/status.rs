//! Documents of the statuses that charms and agents set.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A status that a charm or an agent has set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{S}Doc"))]
pub struct StatusDoc<S = WorkloadStatus> {
    /// The status.
    pub status: S,
    /// The message.
    pub message: StatusMessage,
    /// Additional data, for example the relation of a failed hook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
    /// When the status was set.
    pub since_ms: i64,
    /// Which report set it. A report that arrives late never replaces that of a higher number (design 4).
    pub number: ReportNumber,
}

/// Orders the reports of one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportNumber {
    /// The number of the run.
    pub run: u64,
    /// The position within the run.
    pub call: u32,
}

impl Model {
    /// The workload status of a unit, which its charm sets.
    pub fn unit_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::UnitStatus, &[id])
    }
    /// The agent status of a unit.
    pub fn agent_status(&self, id: Uuid) -> Key<StatusDoc<AgentStatus>> {
        self.key(Kind::AgentStatus, &[id])
    }
    /// The status of an application, which the leader sets.
    pub fn application_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key(Kind::ApplicationStatus, &[id])
    }
}
