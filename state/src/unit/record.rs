//! The records that a unit agent sends: one per outcome of an operation, with all effects of that operation.
//!
//! The controller applies each record exactly once and in order (design 4): records have consecutive sequence
//! numbers, and each names the digest of the record before it. `Local` creates records, the agent's outbox keeps them
//! until they are acknowledged, and `hook_commit` applies them.

use super::hook::{ReportContent, Writes};
use super::local::Local;
use super::operation::Operation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The most reports (log lines and statuses) that one record carries. The agent sends further ones while the hook
/// runs, or drops them and reports how many. 60 reports and the record's own documents fit into the 100 writes of a
/// transaction.
pub const REPORTS_MAX: usize = 60;

/// When an operation is retried: `delay_ms` after `started_ms` of the boot `boot`, and after a reboot `delay_ms`
/// after the agent's start. Never a wall-clock time (design 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// The boot id of the machine when the timer was started.
    pub boot: String,
    /// When the timer was started, in milliseconds since that boot.
    pub started_ms: u64,
    /// The delay in milliseconds.
    pub delay_ms: u64,
}

/// How an operation ended. There is no variant for an interruption, because an interrupted operation runs again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// The charm does not implement the hook, which counts as success (spec A.9).
    Missing,
    /// The operation did not run and counts as done: an operator ran `resolved --no-retry`, or its subject was
    /// removed.
    Skipped,
    /// The operation failed.
    Failed {
        /// The error message.
        reason: String,
        /// When the agent retries it. `None`: the unit stays in error until an operator resolves it.
        retry: Option<Timer>,
    },
}

impl Outcome {
    /// Whether the unit proceeds as if the operation had succeeded.
    pub fn advances(&self) -> bool {
        match self {
            Outcome::Ok | Outcome::Missing | Outcome::Skipped => true,
            Outcome::Failed { .. } => false,
        }
    }
}

/// A status or log line that a hook reported and that stands even if the hook fails. Reports are numbered within
/// their run, so that lost replies do not change their order and a report that is sent twice is stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// The number of the report within its run, from 1.
    pub call: u32,
    /// The wall clock in milliseconds since 1970, for display only.
    pub at_ms: i64,
    /// The status or line.
    pub what: ReportContent,
}

/// The outcome of one operation with all its effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The number of the record, from 1 without gaps over the life of the unit.
    pub sequence: u64,
    /// The digest of the record before this one, empty for the first. It prevents the records of two copies of a
    /// unit's folder from being mixed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub previous_digest: String,
    /// The number of the run that ended. Runs without a process (entering a scope, skipping a hook) have a number
    /// too.
    pub run: u64,
    /// The operation that ended.
    pub operation: Operation,
    /// How it ended.
    pub outcome: Outcome,
    /// The failure episode that was open during the run: the one it retried, or one that it does not affect. `None`:
    /// there was none, or an operator had ended it. The controller's replica needs this, because it is folded from
    /// records alone and does not receive the event that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u64>,
    /// The hook's buffered writes; default if the operation failed or has none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writes: Writes,
    /// The reports that this record delivers, in the order of their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<RunReport>,
    /// When the operation ended: the wall clock in milliseconds since 1970, for display only.
    pub at_ms: i64,
    /// The leadership generation in which the hook made its leader-only writes. The controller refuses them if
    /// another generation has begun since, even one of the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_generation: Option<u64>,
    /// The boot id of the machine, if the hook requested a reboot when it succeeds: no operation starts in this boot
    /// after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// In a resync record: the unit's whole stored state without its outbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_local: Option<Box<Local>>,
}

fn is_default(writes: &Writes) -> bool {
    *writes == Writes::default()
}

impl Record {
    /// Returns the SHA-256 of the record's JSON in hex. Two records with one sequence number and different digests
    /// are a fork: two copies of one unit have run.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(serde_json::to_vec(self).expect("records are plain data")))
    }

    /// Whether this record may follow the record with this digest. A resync record may follow any record.
    pub fn is_successor_of(&self, digest: &str) -> bool {
        self.previous_digest == digest || self.operation == Operation::Resync
    }

    /// Whether the controller may refuse a write of this record, so that no further operation starts before its reply
    /// (design 4): application bags, ports that may conflict, entering a scope, and becoming Dead.
    pub fn is_conditional(&self) -> bool {
        self.outcome.advances()
            && (self.writes.bags.values().any(|bag| !bag.application.is_empty())
                || !self.writes.ports.open.is_empty()
                || matches!(self.operation, Operation::SetDead | Operation::EnterScope { .. }))
    }
}

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
