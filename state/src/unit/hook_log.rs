//! The line of the debug log about a hook that has ended, as Juju's uniter logs it (spec/clients.md 1.8).
//!
//! The record of the run contains the facts that only the agent has ([`HookLog`]); the transaction that applies the record
//! makes the line of it and of the outcome, so that a run has at most one line, which is stored together with the outcome or,
//! below the level of the model, not at all. The English is in `api::text::log`.

use crate::terms::failure_reason::FailureReason;
use crate::terms::operation::Operation;
use crate::terms::outcome::Outcome;
use crate::terms::refusal::RefusalReason;
use crate::unit::writes::Level;
use serde::{Deserialize, Serialize};

/// The program of a charm that ran a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HookHandler {
    /// The charm's `dispatch`.
    Dispatch,
    /// A file of the hook's own.
    Explicit,
}

/// What the line about the end of a hook needs besides the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookLog {
    /// The program that ran the hook; none if no program was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<HookHandler>,
    /// The lowest level at which the model stores the line.
    pub lowest: Level,
}

/// How a hook has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HookEnd {
    /// The charm's program exited with 0, and what it wrote was accepted.
    Ran,
    /// The charm does not implement the hook.
    Missing,
    /// The hook failed for this reason.
    Failed(FailureReason),
}

impl HookEnd {
    /// How the operation of a record has ended; none if it was no hook, or a hook that was skipped. `refused` is why its
    /// writes were refused. The last line on stderr is left out, because the log has it already.
    pub fn of(operation: &Operation, outcome: &Outcome, refused: Option<&RefusalReason>) -> Option<HookEnd> {
        let Operation::Hook(_) = operation else { return None };
        match (refused, outcome) {
            (_, Outcome::Failed { reason, .. }) => Some(HookEnd::Failed(reason.without_last_line())),
            (_, Outcome::Skipped) => None,
            (Some(refused), _) => Some(HookEnd::Failed(FailureReason::refused(refused.clone()))),
            (None, Outcome::Ok) => Some(HookEnd::Ran),
            (None, Outcome::Missing) => Some(HookEnd::Missing),
        }
    }

    /// The level of the line.
    pub fn level(&self) -> Level {
        match self {
            HookEnd::Ran | HookEnd::Missing => Level::Info,
            HookEnd::Failed(_) => Level::Error,
        }
    }
}
