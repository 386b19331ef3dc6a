//! Why an operation of a unit has failed.
//!
//! How a process ended, and what prevented its start, are types; their English is in `api::text::refusal`. The error of
//! the operating system, a provider or a charm is text from outside this program.

use crate::terms::names::UnitName;
use crate::terms::operation::Operation;
use crate::terms::refusal::RefusalReason;
use serde::{Deserialize, Serialize};

/// Why an operation has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// The program of the charm exited with this code.
    Exit {
        /// The code; not 0.
        code: i32,
        /// The last line that the hook printed on stderr or, if it printed none, logged as an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_line: Option<String>,
    },
    /// This signal killed the program of the charm.
    Signal {
        /// The number of the signal.
        signal: i32,
        /// The last line that the hook printed on stderr or, if it printed none, logged as an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_line: Option<String>,
    },
    /// The charm does not implement the action.
    ActionMissing {
        /// The unit.
        unit: UnitName,
    },
    /// The folder of the charm is missing.
    CharmMissing,
    /// The program of the charm has no permission to be executed.
    NotExecutable {
        /// Its path in the folder of the charm.
        file: String,
    },
    /// The program of the charm is a directory.
    IsDirectory {
        /// Its path in the folder of the charm.
        file: String,
    },
    /// The agent stopped while the action ran: an action is never run a second time.
    Interrupted,
    /// The agent stopped each time that the operation ran.
    InterruptedAgain {
        /// How often, in a row.
        count: u32,
    },
    /// The stored state of the unit was lost while the action ran.
    StateLost,
    /// The controller was restored while the action started.
    ControllerRestored,
    /// The view of the unit does not contain the relation of the hook.
    RelationNotShown,
    /// A text of others: an error of the operating system, of a provider or of a charm.
    Text(String),
    /// The controller refused the writes of the operation.
    Refused {
        /// Why.
        refusal: Box<RefusalReason>,
    },
    /// The failure of this operation, where the operation is not clear from the context.
    OfOperation {
        /// The operation.
        operation: Box<Operation>,
        /// Why it failed.
        reason: Box<FailureReason>,
    },
}

impl FailureReason {
    /// The program exited with this code and printed nothing.
    pub fn exit(code: i32) -> FailureReason {
        FailureReason::Exit { code, last_line: None }
    }

    /// This signal killed the program, which printed nothing.
    pub fn signal(signal: i32) -> FailureReason {
        FailureReason::Signal { signal, last_line: None }
    }

    /// This failure without the last line that the hook printed.
    #[must_use]
    pub fn without_last_line(&self) -> FailureReason {
        match self {
            FailureReason::Exit { code, .. } => FailureReason::exit(*code),
            FailureReason::Signal { signal, .. } => FailureReason::signal(*signal),
            other => other.clone(),
        }
    }

    /// The failure of an operation whose writes were refused.
    pub fn refused(refusal: RefusalReason) -> FailureReason {
        FailureReason::Refused { refusal: Box::new(refusal) }
    }

    /// This failure, with the operation that failed. A refusal names what it refuses.
    #[must_use]
    pub fn of_operation(self, operation: &Operation) -> FailureReason {
        match self {
            refused @ FailureReason::Refused { .. } => refused,
            reason => FailureReason::OfOperation {
                operation: Box::new(operation.clone()),
                reason: Box::new(reason),
            },
        }
    }
}

impl From<String> for FailureReason {
    fn from(text: String) -> FailureReason {
        FailureReason::Text(text)
    }
}
