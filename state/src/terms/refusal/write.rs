//! Why writes of a unit are refused: the conditional writes of a record, which is stored all the same, and leader settings.

use crate::terms::names::UnitName;
use crate::terms::port_range::PortRange;
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why the conditional writes of a record, or a change of the leader settings, are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WriteRefusal {
    /// Only the leader writes the settings of its application.
    NotLeader {
        /// The unit.
        unit: UnitName,
        /// The leader; the unit itself if it was not the leader all the time.
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
    /// The leader settings are too large or contain NUL.
    InvalidLeaderSettings {
        /// What the validator found: a text for people.
        problem: String,
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

impl WriteRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            WriteRefusal::NotLeader { .. } | WriteRefusal::LeaderOnly => Code::Forbidden,
            WriteRefusal::UnknownEndpoint { .. } | WriteRefusal::InvalidLeaderSettings { .. } => {
                Code::Invalid
            }
            WriteRefusal::PortConflict { .. } => Code::Busy,
        }
    }
}
