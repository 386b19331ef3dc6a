//! Who keeps unit agents running: systemd where the machine agent is its service, else the machine agent itself,
//! whose children they are. Either way they outlive it.

pub mod children;
pub mod systemd;

use crate::folder::Folder;
use anyhow::Result;
use host::process::Process;
use nix::sys::signal::Signal;
use std::pin::Pin;
use std::time::Duration;

pub const AGENT_PID: &str = "agent.pid";
/// How often an agent that is no child of ours is looked at.
pub const ADOPTED_LOOK: Duration = Duration::from_millis(500);

/// Over when a unit's agent is.
pub type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceManager {
    Children,
    Systemd,
}

impl ServiceManager {
    /// Begins the agent of a unit, which does not run.
    pub fn start(self, folder: &Folder) -> Result<Ended> {
        match self {
            ServiceManager::Children => children::start(folder),
            ServiceManager::Systemd => Ok(systemd::start(folder)),
        }
    }

    /// Ends the agent of a unit for good.
    pub async fn end(self, folder: &Folder) -> Result<()> {
        if self == ServiceManager::Systemd {
            systemd::end(folder).await?;
        }
        // by whom ever it was started: a machine may have become a service while its units ran
        children::end(folder).await;
        Ok(())
    }
}

/// The live agent of a folder, whoever started it.
pub fn running(folder: &Folder) -> Option<Process> {
    Process::read_alive(&folder.file(AGENT_PID))
}

/// Tells the agent of a unit, if it runs, that a file it reads has changed.
pub fn reread_files(folder: &Folder) {
    if let Some(agent) = running(folder)
        && let Err(error) = agent.signal(Signal::SIGHUP)
    {
        tracing::warn!("cannot tell the agent of {folder} of a change: {error}");
    }
}

/// Over when this process is, which is no child of ours.
pub async fn ended(process: Process) {
    while process.is_alive() {
        tokio::time::sleep(ADOPTED_LOOK).await;
    }
}
