//! What a unit sends: one record per outcome, applied exactly once, in order (design 4).

use super::hook::{ReportContent, Writes};
use super::local::Local;
use super::operation::Operation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Lines and statuses one record carries at most; more were sent early or are dropped with a line that says so.
/// 60 of them and the record's own documents stay within one transaction's 100 writes.
pub const SAID_MAX: usize = 60;

/// When to try again: `delay_ms` after `started_ms` since boot `boot`; in another boot, `delay_ms` after the agent's
/// start. Never a wall-clock time (design 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub boot: String,
    pub started_ms: u64,
    pub delay_ms: u64,
}

/// How an operation ended. Interrupted is not among them: an interrupted operation is run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    /// The charm has no such hook: counts as ok (spec A.9).
    Missing,
    /// A person said `resolved --no-retry`: counts as done.
    Skipped,
    /// `retry` none: rests until resolved.
    Failed {
        reason: String,
        retry: Option<Timer>,
    },
}

impl Outcome {
    /// The unit goes on as if the operation had succeeded.
    pub fn advances(&self) -> bool {
        match self {
            Outcome::Ok | Outcome::Missing | Outcome::Skipped => true,
            Outcome::Failed { .. } => false,
        }
    }
}

/// Something a hook said at once, numbered within its run, so that order survives lost replies and a line sent
/// twice is stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    pub call: u32,
    /// Wall clock in milliseconds, for people only.
    pub at_ms: i64,
    pub what: ReportContent,
}

/// One outcome with all its effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From 1, without holes, for the life of the unit.
    pub sequence: u64,
    /// Digest of the record before it, so that the records of two folders of one unit never mix; empty = the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// The hook run it ends; runs without a process (a scope entered, a hook skipped) have a number too.
    pub run: u64,
    pub operation: Operation,
    pub outcome: Outcome,
    /// The failure that was open when it ran: the one it retries, or that it does not touch. None = there was none,
    /// or a person had ended it; who folds records must know, since a begun run is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub writes: Writes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
    pub at_ms: i64,
    /// The leadership its leader-only writes were made under; another one since, even of the same unit, voids them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The machine is to be rebooted: this boot of it ends with this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// With a restatement: the whole memory, without its outbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<Local>>,
}

fn is_default(writes: &Writes) -> bool {
    *writes == Writes::default()
}

impl Record {
    /// SHA-256 of the record's JSON, in hex: two records of one sequence are the same or a fork.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(serde_json::to_vec(self).expect("records are plain data")))
    }

    /// It may come after the record of this digest: it names it. A restatement stands alone.
    pub fn follows(&self, digest: &str) -> bool {
        self.after == digest || self.operation == Operation::Resync
    }

    /// Holds a write that may be refused, so nothing further begins until it is answered (design 4): leader-only
    /// bags, ports that may conflict, entering a scope, and dying.
    pub fn is_conditional(&self) -> bool {
        self.outcome.advances()
            && (self.writes.bags.values().any(|bag| !bag.application.is_empty())
                || !self.writes.ports.open.is_empty()
                || matches!(self.operation, Operation::SetDead | Operation::EnterScope { .. }))
    }
}

/// Bytes as digits of lower case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
