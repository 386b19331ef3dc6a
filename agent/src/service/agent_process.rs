//! The process of a unit agent, whatever started it: its pid file, and how others signal it and wait for its end.
//!
//! A pid file is believed about whether an agent runs, if its process is alive and has the recorded start time. What is
//! signalled is what holds the lock of the folder. Used by `children`, `systemd` and
//! the unit supervisor. `wait_for_exit` polls, because only a parent can wait for a process.

use crate::folder::UnitFolder;
use crate::observation::{last_error_line, log_bytes};
use api::machine_folder::{AGENT_LOCK, AGENT_PID};
use host::lock::{HeldLock, held_below};
use host::process::Process;
use nix::sys::signal::Signal;
use state::terms::health::ProcessEnd;
use std::path::Path;
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

/// The agent of a folder that may be signalled: the process of the pid file, if it holds the lock of the folder. A hook of
/// the unit may have written any number into the pid file, and a signal to the process of another unit would end it.
fn locking(folder: &UnitFolder) -> Option<Process> {
    running(folder).filter(|agent| host::lock::holder(&folder.file(AGENT_LOCK)) == Some(*agent))
}

/// As [`locking`], also if the pid file or the lock file was deleted. It reads the open files of all processes that hold
/// locks, as far as this user may.
pub(super) fn locking_without_files(folder: &UnitFolder) -> Option<Process> {
    let is_agent = |held: &HeldLock| held.file == Path::new(AGENT_LOCK);
    let held = held_below(folder.root()).into_iter().find(is_agent).map(|held| held.holder);
    held.or_else(|| locking(folder))
}

/// Notifies the agent of a unit, if it runs, that a file it reads has changed.
pub fn notify_of_changed_files(folder: &UnitFolder) {
    if let Some(agent) = locking(folder)
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

#[cfg(test)]
mod tests {
    use super::*;
    use host::lock::Lock;

    #[test]
    fn only_what_holds_the_lock_of_a_unit_is_signalled_as_its_agent() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().into());
        let found = || (locking(&folder), locking_without_files(&folder));
        Process::current().write(&folder.file(AGENT_PID)).expect("written");
        assert_eq!(running(&folder), Some(Process::current()));
        assert_eq!(found(), (None, None), "the pid file says nothing");
        let file = folder.file(AGENT_LOCK);
        let _lock = Lock::take(&file, "an agent").expect("it can be opened").expect("it is free");
        assert_eq!(found(), (Some(Process::current()), Some(Process::current())));
        std::fs::remove_file(folder.file(AGENT_PID)).expect("it exists");
        assert_eq!(found(), (None, Some(Process::current())));
        std::fs::remove_file(&file).expect("it exists");
        assert_eq!(found(), (None, Some(Process::current())));
    }
}
