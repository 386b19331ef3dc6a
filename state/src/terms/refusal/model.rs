//! Why a request about a model is refused.

use crate::terms::refusal::code::Code;
use crate::terms::ssh_key::SshKeyProblem;
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
        /// The number of its characters.
        length: usize,
        /// The most characters that are allowed.
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
        /// The name of the setting.
        setting: String,
        /// The value.
        value: String,
        /// What the setting accepts.
        expected: SettingValues,
    },
    /// The value of a setting is too long.
    SettingTooLong {
        /// The name of the setting.
        setting: String,
        /// The number of bytes of the value.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// The clock of a model is advanced, and fake applications exist, only in models in which charms are developed.
    NotForDevelopment {
        /// The name of the model.
        name: String,
    },
    /// The clock of a model is advanced by less than a year at once.
    AdvancedTooFar,
    /// A text is not a public key of OpenSSH.
    InvalidSshKey {
        /// Which of the keys of the request it is, from 1.
        number: usize,
        /// What is wrong.
        problem: SshKeyProblem,
    },
    /// The model would have too many ssh keys.
    TooManySshKeys {
        /// The most that are allowed.
        max: usize,
    },
    /// Nothing is added to a model that is being removed.
    BeingRemoved {
        /// The name of the model.
        name: String,
    },
}

/// The values that a model setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingValues {
    /// A text without NUL.
    Text,
    /// `none`, `unknown`, `destroyed` or `all`.
    HarvestMode,
    /// `LOGGER=LEVEL;…`.
    Logging,
    /// `true` or `false`.
    Boolean,
    /// A number or `unlimited`.
    Retries,
    /// A duration, or 0 for never.
    Interval,
    /// A duration, or `off`.
    Budget,
    /// A duration below a year.
    BelowOneYear,
}

impl ModelRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            ModelRefusal::InvalidName { .. }
            | ModelRefusal::NameTooLong { .. }
            | ModelRefusal::InvalidSetting { .. }
            | ModelRefusal::SettingTooLong { .. }
            | ModelRefusal::NotForDevelopment { .. }
            | ModelRefusal::InvalidSshKey { .. }
            | ModelRefusal::TooManySshKeys { .. }
            | ModelRefusal::AdvancedTooFar => Code::Invalid,
            ModelRefusal::AlreadyExists { .. } | ModelRefusal::PredecessorExists { .. } => {
                Code::AlreadyExists
            }
            ModelRefusal::BeingRemoved { .. } => Code::NotAlive,
        }
    }
}
