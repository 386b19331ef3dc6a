//! Why a request about a model is refused.

use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why a request about a model is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ModelRefusal {
    /// The name is invalid.
    InvalidName {
        /// The name.
        name: String,
    },
    /// The name is too long.
    NameTooLong {
        /// The number of its letters.
        length: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Another model has the name.
    AlreadyExists {
        /// The name.
        name: String,
    },
    /// A model that is being removed has the name.
    PredecessorExists {
        /// The name.
        name: String,
    },
    /// A setting is invalid.
    InvalidSetting {
        /// What the validator found: a text for people.
        problem: String,
    },
    /// Nothing is added to a model that is being removed.
    BeingRemoved {
        /// The name of the model.
        name: String,
    },
}

impl ModelRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            ModelRefusal::InvalidName { .. }
            | ModelRefusal::NameTooLong { .. }
            | ModelRefusal::InvalidSetting { .. } => Code::Invalid,
            ModelRefusal::AlreadyExists { .. } | ModelRefusal::PredecessorExists { .. } => {
                Code::AlreadyExists
            }
            ModelRefusal::BeingRemoved { .. } => Code::NotAlive,
        }
    }
}
