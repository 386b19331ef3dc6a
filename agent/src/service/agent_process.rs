//! The process of a unit agent, whatever started it: its pid file, and how others signal it and wait for its end.

use crate::folder::UnitFolder;
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
