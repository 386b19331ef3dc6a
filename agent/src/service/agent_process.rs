//! The process of a unit agent, whatever started it: its pid file, and how others signal it and wait for its end.
//!
//! A pid file is trusted only if its process is alive and has the recorded start time. Used by `children`, `systemd` and
//! the unit supervisor. `wait_for_exit` polls, because only a parent can wait for a process.

use crate::folder::UnitFolder;
use crate::observation::{last_error_line, log_bytes};
use api::machine_folder::AGENT_PID;
use host::process::Process;
use nix::sys::signal::Signal;
use state::terms::health::ProcessEnd;
use std::pin::Pin;
use std::time::Duration;

/// How often an agent that is not a child of this process is polled.
pub const NON_CHILD_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Completes when a unit agent has ended, with how it ended and its last error.
pub type AgentExit = Pin<Box<dyn Future<Output = EndedAgent> + Send>>;

/// A unit agent that has ended.
#[derive(Clone, Debug)]
pub struct EndedAgent {
    /// How it ended.
    pub end: ProcessEnd,
    /// The last error in its log, or else the last line ([`host::log_tail::last_error_line`]); `None` if it has none.
    pub last_error: Option<String>,
}

/// The running agent of a folder, whatever started it.
pub fn running(folder: &UnitFolder) -> Option<Process> {
    Process::read_alive(&folder.file(AGENT_PID))
}

/// Notifies the agent of a unit, if it runs, that a file it reads has changed.
pub fn notify_of_changed_files(folder: &UnitFolder) {
    if let Some(agent) = running(folder)
        && let Err(error) = agent.signal(Signal::SIGHUP)
    {
        tracing::warn!("cannot notify the agent of {folder} of a changed file: {error}");
    }
}

/// Completes when the agent of a folder, which is not a child, has ended.
pub async fn wait_for_exit(process: Process, folder: UnitFolder) -> EndedAgent {
    let from = log_bytes(&folder);
    while process.is_alive() {
        tokio::time::sleep(NON_CHILD_POLL_INTERVAL).await;
    }
    EndedAgent { end: ProcessEnd::Unobserved, last_error: last_error_line(&folder, from) }
}
