//! The colours of status words on a terminal (spec/clients.md 3.3).

use state::terms::status::{AgentStatus, MachineAgentStatus, WorkloadStatus};

/// The colour of a cell of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Green,
    Yellow,
    Red,
}

impl Colour {
    /// The text between the codes that switch this colour on and off.
    pub fn of_text(self, text: &str) -> String {
        let code = match self {
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The colour of a workload, if its status has one.
    pub fn of_workload(status: WorkloadStatus) -> Option<Colour> {
        match status {
            WorkloadStatus::Active => Some(Colour::Green),
            WorkloadStatus::Maintenance | WorkloadStatus::Waiting => Some(Colour::Yellow),
            WorkloadStatus::Error | WorkloadStatus::Blocked => Some(Colour::Red),
            WorkloadStatus::Terminated | WorkloadStatus::Unknown => None,
        }
    }

    /// The colour of a unit agent, if its status has one.
    pub fn of_agent(status: AgentStatus) -> Option<Colour> {
        match status {
            AgentStatus::Idle => Some(Colour::Green),
            AgentStatus::Allocating | AgentStatus::Executing | AgentStatus::Rebooting => Some(Colour::Yellow),
            AgentStatus::Error | AgentStatus::Lost | AgentStatus::Failed => Some(Colour::Red),
        }
    }

    /// The colour of a machine, if its status has one.
    pub fn of_machine(status: MachineAgentStatus) -> Option<Colour> {
        match status {
            MachineAgentStatus::Started => Some(Colour::Green),
            MachineAgentStatus::Pending => Some(Colour::Yellow),
            MachineAgentStatus::Down => Some(Colour::Red),
            MachineAgentStatus::Stopped => None,
        }
    }
}
