//! Why a report about the instance of a machine, or its enrolment, is refused.

use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// Why a report about the instance of a machine, or its enrolment, is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InstanceRefusal {
    /// No instance is started for a machine that is being removed.
    MachineNotAlive,
    /// The nonce of the instance was not reserved.
    NonceNotReserved,
    /// There is nothing to retry.
    NoProvisioningError {
        /// The name of the machine.
        machine: String,
    },
    /// The provider creates the machine, which needs no enrolment token.
    NotManual {
        /// The name of the machine.
        machine: String,
    },
    /// The machine was enrolled before.
    AlreadyEnrolled {
        /// The name of the machine.
        machine: String,
    },
    /// The address of the machine that is to be enrolled is no IP address.
    InvalidAddress {
        /// The text.
        address: String,
    },
    /// The enrolment token was revoked or used.
    TokenInvalid,
    /// The machine that is to be enrolled is being removed.
    MachineBeingRemoved {
        /// The name of the machine.
        machine: String,
    },
}

impl InstanceRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            InstanceRefusal::MachineNotAlive | InstanceRefusal::MachineBeingRemoved { .. } => Code::NotAlive,
            InstanceRefusal::NonceNotReserved
            | InstanceRefusal::NoProvisioningError { .. }
            | InstanceRefusal::InvalidAddress { .. }
            | InstanceRefusal::NotManual { .. } => Code::Invalid,
            InstanceRefusal::AlreadyEnrolled { .. } => Code::AlreadyExists,
            InstanceRefusal::TokenInvalid => Code::Forbidden,
        }
    }
}
