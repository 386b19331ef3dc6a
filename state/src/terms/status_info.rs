//! A status as people are shown it.

use crate::terms::status_message::StatusMessage;
use crate::terms::unit_documents::StatusDoc;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A status as it is shown. Derived statuses are computed already: an agent's error is shown as the workload
/// status, and an application shows its worst unit (spec/uniter.md F.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{S}Info"))]
pub struct StatusInfo<S> {
    /// The status.
    pub current: S,
    /// The message.
    #[serde(default, skip_serializing_if = "StatusMessage::is_empty")]
    pub message: StatusMessage,
    /// When the status was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Additional data of the status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

impl<S> StatusInfo<S> {
    /// A status without additional data.
    pub fn new(current: S, message: StatusMessage, since_ms: Option<i64>) -> StatusInfo<S> {
        StatusInfo { current, message, since_ms, data: BTreeMap::new() }
    }
}

impl<S> From<StatusDoc<S>> for StatusInfo<S> {
    fn from(doc: StatusDoc<S>) -> StatusInfo<S> {
        StatusInfo { current: doc.status, message: doc.message, since_ms: Some(doc.since_ms), data: doc.data }
    }
}
