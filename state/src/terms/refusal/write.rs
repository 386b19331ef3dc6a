//! Why writes of a unit are refused: the conditional writes of a record, or leader settings.
//!
//! The record itself is stored even if its conditional writes are refused.

use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::port_range::PortRange;
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why the conditional writes of a record, or a change of the leader settings, are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WriteRefusal {
    /// Only the leader writes the settings of its application.
    NotLeader {
        /// The unit.
        unit: UnitName,
        /// The current leader; the unit itself if it was not the leader during the whole hook.
        leader: Option<UnitName>,
    },
    /// Ports are opened at an endpoint that the charm does not declare.
    UnknownEndpoint {
        /// The unit.
        unit: UnitName,
        /// The endpoint.
        endpoint: String,
    },
    /// Only the leader writes the leader settings.
    LeaderOnly,
    /// A copy of the unit's folder has changed the leader settings at the same time or later.
    Overtaken,
    /// The leader settings are too large or contain NUL.
    InvalidLeaderSettings {
        /// What is wrong with them.
        problem: LeaderSettingsProblem,
    },
    /// The settings of the unit or of its application in a relation would be too large.
    BagTooLarge {
        /// The unit.
        unit: UnitName,
        /// The relation.
        relation: RelationNumber,
        /// Their bytes.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// All settings that the record changes would be too large together.
    BagsTooLarge {
        /// The unit.
        unit: UnitName,
        /// Their bytes as JSON.
        bytes: usize,
        /// The most bytes that the engine of the store can hold.
        max: usize,
    },
    /// Another unit of the machine has opened the ports.
    PortConflict {
        /// The unit.
        unit: UnitName,
        /// The ports of this unit.
        range: PortRange,
        /// The other unit.
        other: UnitName,
        /// The ports of the other unit.
        other_range: PortRange,
    },
}

/// Why leader settings are not stored. Its text is what `leader-set` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LeaderSettingsProblem {
    /// A setting contains NUL.
    ContainsNul {
        /// The name of the setting.
        key: String,
    },
    /// All settings together are too large.
    TooLarge {
        /// Their bytes.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
}

impl fmt::Display for LeaderSettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaderSettingsProblem::ContainsNul { key } => {
                write!(f, "leader setting {key:?} contains NUL, which no setting may contain")
            }
            LeaderSettingsProblem::TooLarge { bytes, max } => {
                write!(f, "leader settings of {bytes} bytes are too large: {max} bytes at most")
            }
        }
    }
}

impl WriteRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            WriteRefusal::NotLeader { .. } | WriteRefusal::LeaderOnly | WriteRefusal::Overtaken => {
                Code::Forbidden
            }
            WriteRefusal::UnknownEndpoint { .. }
            | WriteRefusal::InvalidLeaderSettings { .. }
            | WriteRefusal::BagTooLarge { .. }
            | WriteRefusal::BagsTooLarge { .. } => Code::Invalid,
            WriteRefusal::PortConflict { .. } => Code::Busy,
        }
    }
}
