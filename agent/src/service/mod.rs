//! Starts unit agents and keeps them running: through systemd if the machine agent is a systemd service, else
//! as child processes of the machine agent.
//!
//! Unit agents outlive the machine agent in both cases. Called by `deployer`, `unit_supervisor` and `reboot`;
//! `machine_program` and `uninstall` install and remove the services, `inspect` reads whether an agent runs.

mod agent_process;
pub mod children;
mod service_state;
pub mod systemd;
pub mod unit_files;

pub use agent_process::{AgentExit, EndedAgent, notify_of_changed_files, running, wait_for_exit};

use crate::folder::UnitFolder;
use anyhow::Result;

/// What starts unit agents and keeps them running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervision {
    /// The machine agent: unit agents are its child processes.
    Children,
    /// systemd: unit agents are instances of a template unit.
    Systemd,
}

impl Supervision {
    /// Starts the agent of a unit, which must not be running.
    ///
    /// # Errors
    /// If the agent cannot be started.
    pub fn start(self, folder: &UnitFolder) -> Result<AgentExit> {
        match self {
            Supervision::Children => children::start(folder),
            Supervision::Systemd => systemd::start(folder),
        }
    }

    /// Stops the agent of a unit.
    ///
    /// # Errors
    /// If systemd does not stop it.
    pub async fn stop(self, folder: &UnitFolder) -> Result<()> {
        if self == Supervision::Systemd {
            systemd::stop(folder).await?;
        }
        // the agent may be a child although systemd is used now, because a machine may become a service while
        // its units run
        children::stop(folder).await;
        Ok(())
    }
}
