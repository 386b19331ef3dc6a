//! The outcome of an operation of a unit, and when the operation is retried.

use crate::terms::failure_reason::FailureReason;
use serde::{Deserialize, Serialize};

/// When an operation is retried: `delay_ms` after `started_ms` of the boot `boot`, and after a reboot `delay_ms`
/// after the agent's start; less what the clock of the model was advanced by since the timer was started. Never a
/// wall-clock time (design 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// The boot id of the machine when the timer was started.
    pub boot: String,
    /// When the timer was started, in milliseconds since that boot.
    pub started_ms: u64,
    /// The delay in milliseconds.
    pub delay_ms: u64,
    /// How far the clock of the model had been advanced when the timer was started, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub advanced_ms: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How an operation ended. An interrupted operation has no outcome, because it is run again; an interrupted action, and an
/// operation that was interrupted too often, has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// The charm does not implement the hook, which counts as success (spec A.9).
    Missing,
    /// The operation counts as done without having succeeded: an operator ran `resolved --no-retry`, its subject was
    /// removed or needs no hook any more, the unit is not the leader any more, or the action was cancelled.
    Skipped,
    /// The operation failed.
    Failed {
        /// Why.
        reason: FailureReason,
        /// When the agent retries it. `None`: it is not retried. The unit then stays in error until an operator resolves
        /// it; after an action it continues.
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
