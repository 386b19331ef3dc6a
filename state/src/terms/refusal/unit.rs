//! Why a request about a unit is refused.

use crate::terms::life::Life;
use crate::terms::names::{RelationEnds, UnitName};
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why a request about a unit is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnitRefusal {
    /// Units of a subordinate application are added by relations only.
    SubordinateApplication {
        /// The application.
        application: String,
    },
    /// The subordinate that the unit had before is not removed yet.
    SubordinateNotRemoved {
        /// The unit.
        unit: UnitName,
        /// The life of that subordinate.
        life: Life,
    },
    /// A subordinate is removed with its principal or its relation only.
    Subordinate {
        /// The unit.
        unit: UnitName,
    },
    /// A unit that is Alive cannot become Dead.
    Alive {
        /// The unit.
        unit: UnitName,
    },
    /// A unit with subordinates cannot become Dead.
    HasSubordinates {
        /// The unit.
        unit: UnitName,
    },
    /// A unit in the scope of a relation cannot become Dead.
    InScope {
        /// The unit.
        unit: UnitName,
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// A unit that is not Dead cannot be removed.
    NotDead {
        /// The unit.
        unit: UnitName,
    },
    /// A Dying unit cannot be removed before its agent, which has attached, has run the last hooks. The machine agent
    /// starts that agent again.
    AgentNotFinished {
        /// The unit.
        unit: UnitName,
    },
    /// A Dead unit runs nothing and cannot be the leader.
    Dead {
        /// The unit.
        unit: UnitName,
    },
    /// The unit is not in error, so that there is nothing to resolve.
    NoError {
        /// The unit.
        unit: UnitName,
    },
}

impl UnitRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            UnitRefusal::Alive { .. } | UnitRefusal::NoError { .. } => Code::Invalid,
            UnitRefusal::SubordinateApplication { .. } | UnitRefusal::Subordinate { .. } => Code::Forbidden,
            UnitRefusal::SubordinateNotRemoved { .. } | UnitRefusal::Dead { .. } => Code::NotAlive,
            UnitRefusal::HasSubordinates { .. }
            | UnitRefusal::InScope { .. }
            | UnitRefusal::NotDead { .. }
            | UnitRefusal::AgentNotFinished { .. } => Code::Busy,
        }
    }
}
