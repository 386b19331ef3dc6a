//! Unit agents as child processes of the machine agent, each in its own process group.
//!
//! A child is not killed when the machine agent ends. `unit_supervisor` restarts a child that ends.

use super::agent_process::{self, AgentExit, EndedAgent};
use crate::exit_code;
use crate::fault;
use crate::folder::UnitFolder;
use crate::observation::{AGENT_LOG, last_error_line, log_bytes};
use anyhow::{Context, Result};
use api::text;
use host::log_file;
use host::process::Process;
use nix::sys::signal::Signal;
use state::terms::health::ProcessEnd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

/// An agent that receives SIGTERM has 2.5 s to end. Then it is killed, and the wait for its end stops after another
/// 2.5 s: 250 polls, 20 ms apart.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);
const STOP_POLLS_MAX: u32 = 250;

/// Starts the unit agent of a folder. The returned future completes when it has ended.
///
/// # Errors
/// If the log cannot be opened or the program not be started.
pub fn start(folder: &UnitFolder) -> Result<AgentExit> {
    let (log, program) = (folder.file(AGENT_LOG), crate::installed_programs::agent_program());
    let log = log_file::open(&log).with_context(|| format!("cannot open {}", log.display()))?;
    let mut command = Command::new(program);
    command
        .arg("unit")
        .arg("--dir")
        .arg(folder.root())
        .current_dir(folder.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let (from, folder) = (log_bytes(folder), folder.clone());
    let child = tokio::process::Command::from(command).spawn();
    let mut child = child
        .map_err(fault::start_error)
        .with_context(|| format!("cannot start {} in {folder}", program.display()))?;
    Ok(Box::pin(async move {
        // The child is reaped here. Its log has the reason for its end, unless the disk was full.
        let status = child.wait().await.ok();
        let code = status.and_then(|status| status.code());
        let signal = status.and_then(|status| status.signal());
        let end = code.map(ProcessEnd::Code).or(signal.map(ProcessEnd::Signal));
        if let Some(fault) = code.and_then(exit_code::fault) {
            tracing::error!("the agent of {folder} ended: {}; restarting it", text::fault::state(fault));
        }
        let end = end.unwrap_or(ProcessEnd::Unobserved);
        EndedAgent { end, last_error: last_error_line(&folder, from) }
    }))
}

/// Stops the unit agent of a folder, if it runs.
pub async fn stop(folder: &UnitFolder) {
    let Some(agent) = agent_process::locking_without_files(folder) else { return };
    signal(agent, Signal::SIGTERM);
    for poll in 0..STOP_POLLS_MAX {
        if !agent.is_alive() {
            break;
        }
        if poll == STOP_POLLS_MAX / 2 {
            signal(agent, Signal::SIGKILL);
        }
        tokio::time::sleep(STOP_POLL_INTERVAL).await;
    }
}

fn signal(agent: Process, signal: Signal) {
    if let Err(error) = agent.signal(signal) {
        tracing::warn!("cannot send {signal} to the unit agent with pid {}: {error}", agent.pid);
    }
}
