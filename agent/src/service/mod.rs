//! Starts unit agents and keeps them running: through systemd if the machine agent is a systemd service, else
//! as child processes of the machine agent.
//!
//! Unit agents outlive the machine agent in both cases. Called by `deployer` and `unit_supervisor`.

pub mod children;
pub mod systemd;

use crate::folder::UnitFolder;
use anyhow::Result;
use host::process::Process;
use nix::sys::signal::Signal;
use std::pin::Pin;
use std::time::Duration;

/// The pid file of a unit agent, in the unit's folder.
pub const AGENT_PID: &str = "agent.pid";
/// How often an agent is polled that is not a child of this process.
pub const REATTACHED_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Completes when a unit agent has ended.
pub type AgentExit = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What starts unit agents and keeps them running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceManager {
    /// The machine agent: unit agents are its child processes.
    Children,
    /// systemd: unit agents are instances of a template unit.
    Systemd,
}

impl ServiceManager {
    /// Starts the agent of a unit, which must not be running.
    pub fn start(self, folder: &UnitFolder) -> Result<AgentExit> {
        match self {
            ServiceManager::Children => children::start(folder),
            ServiceManager::Systemd => Ok(systemd::start(folder)),
        }
    }

    /// Stops the agent of a unit.
    pub async fn stop(self, folder: &UnitFolder) -> Result<()> {
        if self == ServiceManager::Systemd {
            systemd::stop(folder).await?;
        }
        // the agent may be a child although systemd is used now, because a machine may become a service while
        // its units run
        children::stop(folder).await;
        Ok(())
    }
}

/// The running agent of a folder, whatever started it.
pub fn running(folder: &UnitFolder) -> Option<Process> {
    Process::read_alive(&folder.file(AGENT_PID))
}

/// Notifies the agent of a unit, if it runs, that a file it reads has changed.
pub fn reread_files(folder: &UnitFolder) {
    if let Some(agent) = running(folder)
        && let Err(error) = agent.signal(Signal::SIGHUP)
    {
        tracing::warn!("cannot notify the agent of {folder} of a changed file: {error}");
    }
}

/// Completes when this process, which is not a child, has ended.
pub async fn wait_for_exit(process: Process) {
    while process.is_alive() {
        tokio::time::sleep(REATTACHED_POLL_INTERVAL).await;
    }
}
