//! Why an action is not enqueued or not cancelled.

use crate::charm::params::ParameterProblem;
use crate::terms::names::UnitName;
use crate::terms::refusal::code::Code;
use crate::terms::status::ActionStatus;
use serde::{Deserialize, Serialize};

/// Why an action is not enqueued or not cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ActionRefusal {
    /// The charm has no such action.
    Unknown {
        /// The name that was requested.
        action: String,
        /// The unit.
        unit: UnitName,
        /// The charm.
        charm: String,
        /// The actions that the charm has.
        known: Vec<String>,
    },
    /// The parameters do not satisfy the schema of the action.
    InvalidParameters {
        /// Each parameter that does not.
        problems: Vec<ParameterProblem>,
    },
    /// The parameters are too large.
    ParametersTooLarge {
        /// The action.
        action: String,
        /// The size of the parameters in bytes.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// Too many actions are enqueued for the unit.
    TooManyEnqueued {
        /// The action.
        action: String,
        /// The unit.
        unit: UnitName,
        /// The most that are allowed.
        max: usize,
    },
    /// The action has ended, so that it cannot be cancelled.
    Finished {
        /// The number of the task.
        id: u64,
        /// How it ended.
        status: ActionStatus,
    },
}

impl ActionRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            ActionRefusal::Unknown { .. } => Code::UnknownAction,
            ActionRefusal::InvalidParameters { .. }
            | ActionRefusal::ParametersTooLarge { .. }
            | ActionRefusal::Finished { .. } => Code::Invalid,
            ActionRefusal::TooManyEnqueued { .. } => Code::Busy,
        }
    }
}
