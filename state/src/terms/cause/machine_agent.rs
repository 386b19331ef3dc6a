//! What a cause tells about a machine agent that does not report: how long it has been silent, and what it runs on.
//!
//! Facts only: `remedy` derives from them what a person can do. Part of [`Duty::RunMachineAgent`](super::Duty).

use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// How long a machine agent has been silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// The agent was not started yet.
    NotStarted,
    /// The agent was started and has not reported yet.
    NotReported,
    /// The agent is overdue.
    Late,
    /// The agent has been silent for so long that the machine is shown as lost.
    Lost,
}

/// What a machine agent runs on, in as much detail as a person needs to restart the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// A manually provisioned machine.
    Manual,
    /// A process started by `pintle up`, in the folder of this machine.
    Process(Uuid),
    /// A container started by `pintle up`, in the folder of this machine.
    Container(Uuid),
}
