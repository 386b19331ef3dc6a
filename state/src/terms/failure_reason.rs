//! Why an operation of a unit has failed.
//!
//! The error of a process or of its environment is text from outside this program. A refusal of the controller is a
//! type; its English is in `api::text::refusal`.

use crate::terms::refusal::RefusalReason;
use serde::{Deserialize, Serialize};

/// Why an operation has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum FailureReason {
    /// The text of what failed: `exit status 1`.
    Text(String),
    /// The controller refused the writes of the operation.
    Refused {
        /// Why.
        refusal: Box<RefusalReason>,
    },
}

impl FailureReason {
    /// The failure of an operation whose writes were refused.
    pub fn refused(refusal: RefusalReason) -> FailureReason {
        FailureReason::Refused { refusal: Box::new(refusal) }
    }
}

impl From<String> for FailureReason {
    fn from(text: String) -> FailureReason {
        FailureReason::Text(text)
    }
}

impl From<&str> for FailureReason {
    fn from(text: &str) -> FailureReason {
        FailureReason::Text(text.to_owned())
    }
}
