//! Why an agent of a unit may not write (design 6).

use crate::terms::names::Uuid;
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why an agent of a unit may not write (design 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SessionRefusal {
    /// The nonce of the session is nil, which marks a forced removal.
    NilNonce,
    /// Another agent of the unit is connected.
    OtherAgentConnected,
    /// The epoch is too far ahead to have been granted by a store that was restored since.
    EpochNotGranted {
        /// The epoch of the agent.
        epoch: u64,
    },
    /// The epoch was granted by another store generation: the agent must attach again.
    EpochOfOtherGeneration {
        /// The epoch of the agent.
        epoch: u64,
        /// The newest epoch that this store has granted.
        newest: u64,
        /// The sequence number of the record that the controller needs next.
        expected: u64,
    },
    /// A newer agent of the unit has attached.
    NewerAgent {
        /// The epoch of the newer agent.
        newest: u64,
        /// The epoch of this agent.
        epoch: u64,
    },
    /// The unit is removed by force, so that the controller acts in place of its agent.
    RemovedByForce,
    /// The unit was removed, which a tombstone proves.
    UnitRemoved {
        /// The name that the unit had.
        name: String,
    },
    /// The store has neither the unit nor its tombstone.
    UnknownUnit {
        /// The unit.
        unit: Uuid,
    },
}

impl SessionRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            SessionRefusal::NilNonce | SessionRefusal::EpochNotGranted { .. } => Code::Invalid,
            SessionRefusal::OtherAgentConnected => Code::Busy,
            SessionRefusal::EpochOfOtherGeneration { expected, .. } => Code::Gap { expected: *expected },
            SessionRefusal::NewerAgent { .. } | SessionRefusal::RemovedByForce => Code::Fenced,
            SessionRefusal::UnitRemoved { .. } => Code::Removed,
            SessionRefusal::UnknownUnit { .. } => Code::NotFound,
        }
    }
}
