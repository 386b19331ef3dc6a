//! Why a request about a machine is refused.

use crate::terms::names::UnitName;
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why a request about a machine is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MachineRefusal {
    /// No unit is assigned to a machine that is being removed.
    NotAlive {
        /// The name of the machine.
        machine: String,
    },
    /// No unit is assigned to a machine that is full.
    Full {
        /// The name of the machine.
        machine: String,
        /// The most units of a machine.
        max: usize,
    },
    /// Only units of a fake application are assigned to its machine, which has no agent.
    WithoutAgent {
        /// The name of the machine.
        machine: String,
    },
    /// A machine with Alive units is not removed.
    UnitsAlive {
        /// The name of the machine.
        machine: String,
        /// Its Alive units.
        units: Vec<UnitName>,
    },
    /// The instance of a Dead machine cannot be kept.
    InstanceBeingReleased {
        /// The name of the machine.
        machine: String,
    },
    /// The machine has no instance to keep.
    NoInstance {
        /// The name of the machine.
        machine: String,
    },
    /// A machine that is Alive cannot become Dead.
    Alive {
        /// The name of the machine.
        machine: String,
    },
    /// A machine with units cannot become Dead.
    UnitsAssigned {
        /// The name of the machine.
        machine: String,
    },
    /// No unit of the machine can run commands.
    NoUnit {
        /// The name of the machine.
        machine: String,
    },
    /// A machine that is not Dead cannot be removed.
    NotDead {
        /// The name of the machine.
        machine: String,
    },
}

impl MachineRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            MachineRefusal::NotAlive { .. } => Code::NotAlive,
            MachineRefusal::Full { .. }
            | MachineRefusal::WithoutAgent { .. }
            | MachineRefusal::InstanceBeingReleased { .. }
            | MachineRefusal::NoInstance { .. }
            | MachineRefusal::NoUnit { .. }
            | MachineRefusal::Alive { .. } => Code::Invalid,
            MachineRefusal::UnitsAlive { .. }
            | MachineRefusal::UnitsAssigned { .. }
            | MachineRefusal::NotDead { .. } => Code::Busy,
        }
    }
}
