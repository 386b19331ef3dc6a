//! The agents as systemd services: starts, stops and observes them through `systemctl`.
//!
//! The template of the services of unit agents (`unit_files`) is in /run: the machine agent writes it at each start, so
//! that it always refers to the running program, and a reboot removes it.
//!
//! Called by `service`, `uninstall`, and `machine_program` for `pintle-agent install` and at each start.

use super::agent_process::{AgentExit, EndedAgent, NON_CHILD_POLL_INTERVAL, running, wait_for_exit};
use super::service_state::{PROPERTIES, ServiceState};
use super::unit_files::{
    MACHINE_SERVICE, UNIT_FILE_DIR, UNIT_TEMPLATE, WANTS_DIR, is_plain, make_readable, require_plain,
    systemd_version, unit_agent_service,
};
use crate::fault;
use crate::folder::UnitFolder;
use crate::observation::{AGENT_LOG, last_error_line, log_bytes};
use anyhow::Result;
use host::file::{ignore_not_found, read_regular_text, write_atomic_unsynced};
use host::log_file;
use host::program::HostProgram;
use state::terms::health::ProcessEnd;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Exists if systemd runs as process 1 (sd_booted(3)).
const SYSTEMD_RUN_DIR: &str = "/run/systemd/system";
/// The time limit of systemctl, which waits for its job: stopping an agent that must be killed takes 10 s.
const SYSTEMCTL_LIMIT: Duration = Duration::from_secs(60);
/// The exit code of systemctl for a service that is not loaded (LSB: the program is not installed).
const NOT_LOADED: i32 = 5;
/// Polls of a service, each by a process of systemctl, are 2 s apart: every fourth poll for an agent.
const AGENT_POLLS_PER_SERVICE_POLL: u32 = 4;
/// Polls of a service that neither runs nor waits for its next start, after which it counts as not started: 10 s.
const INACTIVE_POLLS_MAX: u32 = 5;

/// Whether systemd manages this host and this process may use it.
pub fn can_be_used() -> bool {
    Path::new(SYSTEMD_RUN_DIR).is_dir() && nix::unistd::geteuid().is_root()
}

/// The name of the service of a unit agent.
fn service(folder: &UnitFolder) -> String {
    UNIT_TEMPLATE.replace('@', &format!("@{}", folder.tag()))
}

/// Starts the installed service of the machine agent.
///
/// # Errors
/// If systemctl fails.
pub async fn start_installed() -> Result<()> {
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["restart", MACHINE_SERVICE]).await.map(drop)
}

/// Stops the service of the machine agent, if it is installed. When this returns, it does not run.
///
/// # Errors
/// If systemctl fails for another reason than that the service is not loaded.
pub async fn stop_machine() -> Result<()> {
    match HostProgram::new("systemctl", ["stop", MACHINE_SERVICE], SYSTEMCTL_LIMIT).run().await {
        Err(error) if error.exit_code() == Some(NOT_LOADED) => Ok(()),
        stopped => stopped.map(drop).map_err(fault::program_error),
    }
}

/// Writes the template of the unit agents' services, if it differs, and has systemd read it. An equal file is read
/// again, too, because an earlier agent may have ended before systemd had read it.
///
/// # Errors
/// If the file cannot be written, or systemctl fails.
pub async fn prepare(data: &Path) -> Result<()> {
    let program = crate::installed_programs::agent_program();
    require_plain(program)?;
    require_plain(data)?;
    let file = Path::new(SYSTEMD_RUN_DIR).join(UNIT_TEMPLATE);
    let text = unit_agent_service(program, data, systemd_version(Path::new("/")));
    if read_regular_text(&file, text.len() as u64).ok().as_ref() != Some(&text) {
        write_atomic_unsynced(&file, text.as_bytes())?;
        make_readable(&file)?;
    }
    systemctl(&["daemon-reload"]).await.map(drop)
}

/// Deletes the unit files. The calling service continues until it ends. The link that starts the service at boot is
/// deleted last, so that an interrupted removal is resumed as long as a unit file is left; a link without one is ignored.
///
/// # Errors
/// If a file cannot be deleted, or systemctl fails.
pub async fn uninstall() -> Result<()> {
    let installed = Path::new("/").join(UNIT_FILE_DIR);
    let wanted = Path::new("/").join(WANTS_DIR);
    for file in [
        Path::new(SYSTEMD_RUN_DIR).join(UNIT_TEMPLATE),
        installed.join(MACHINE_SERVICE),
        wanted.join(MACHINE_SERVICE),
    ] {
        ignore_not_found(fs::remove_file(file))?;
    }
    systemctl(&["daemon-reload"]).await.map(drop)
}

/// Starts a unit agent. systemd restarts an agent that fails, so nothing is done for a service that waits for its next
/// start.
///
/// # Errors
/// If the log cannot be opened.
pub(super) fn start(folder: &UnitFolder) -> Result<AgentExit> {
    // systemd would create a log that other users can read, and could not report a full disk
    drop(log_file::open(&folder.file(AGENT_LOG))?);
    let (service, folder) = (service(folder), folder.clone());
    Ok(Box::pin(async move {
        let (from, before) = (log_bytes(&folder), show(&service).await);
        if !before.is_active
            && let Err(error) = systemctl(&["start", "--no-block", &service]).await
        {
            tracing::warn!("{error:#}");
            return EndedAgent { end: ProcessEnd::NotStarted, last_error: Some(format!("{error:#}")) };
        }
        let end = wait_for_end(&folder, &before, || show(&service)).await;
        let not_started = || format!("systemd does not start {service}; read: systemctl status {service}");
        let last_error = match end {
            ProcessEnd::NotStarted => Some(not_started()),
            _ => last_error_line(&folder, from),
        };
        EndedAgent { end, last_error }
    }))
}

/// Waits until an agent has ended that was started after the state `before` of its service was observed. `show` returns
/// the state of the service now. The service may wait for its next start for longer than any number of polls.
async fn wait_for_end<F: Future<Output = ServiceState>>(
    folder: &UnitFolder,
    before: &ServiceState,
    show: impl Fn() -> F,
) -> ProcessEnd {
    let (mut polls, mut inactive_polls) = (0u32, 0);
    loop {
        if let Some(agent) = running(folder) {
            wait_for_exit(agent, folder.clone()).await;
            return show().await.end;
        }
        polls = polls.wrapping_add(1);
        tokio::time::sleep(NON_CHILD_POLL_INTERVAL).await;
        if !polls.is_multiple_of(AGENT_POLLS_PER_SERVICE_POLL) {
            continue;
        }
        let now = show().await;
        // an agent that fails at its start ends between two polls
        if let Some(end) = now.end_since(before) {
            return end;
        }
        inactive_polls = if now.is_active { 0 } else { inactive_polls + 1 };
        if inactive_polls == INACTIVE_POLLS_MAX {
            return ProcessEnd::NotStarted;
        }
    }
}

/// The state of a service. One that systemd does not show counts as never started.
async fn show(service: &str) -> ServiceState {
    ServiceState::parse(&systemctl(&["show", PROPERTIES, service]).await.unwrap_or_default())
}

/// Stops a unit agent.
pub(super) async fn stop(folder: &UnitFolder) -> Result<()> {
    if !is_plain(Path::new(&folder.tag())) {
        // this is not the name of a unit's folder, so no service was ever started for it
        return Ok(());
    }
    let service = service(folder);
    systemctl(&["stop", &service]).await?;
    // systemd lists the service of an agent that it had to kill as failed until this command; for any other service the
    // command fails, which is ignored
    attempt_systemctl(&["reset-failed", &service]).await
}

/// Runs systemctl and returns what it prints.
async fn systemctl(args: &[&str]) -> Result<String> {
    let ran = HostProgram::new("systemctl", args.iter().copied(), SYSTEMCTL_LIMIT).run().await;
    ran.map_err(fault::program_error)
}

/// Runs systemctl; it may report a failure.
async fn attempt_systemctl(args: &[&str]) -> Result<()> {
    match HostProgram::new("systemctl", args.iter().copied(), SYSTEMCTL_LIMIT).run().await {
        Err(error) if error.exit_code().is_none() => Err(fault::program_error(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What systemd shows of the service of a unit agent that fails.
    fn failed(active: &str, started_us: u64, code: i32) -> ServiceState {
        ServiceState::parse(&format!(
            "ActiveState={active}\nExecMainStartTimestampMonotonic={started_us}\nExecMainCode=1\nExecMainStatus={code}\n"
        ))
    }

    /// The end of a service that systemd shows as `states`, one for each poll, and then the last one for ever. None if
    /// none is reported within an hour.
    async fn end_of(before: &ServiceState, states: &[ServiceState]) -> Option<ProcessEnd> {
        let (dir, polls) = (tempfile::tempdir().unwrap(), std::cell::Cell::new(0));
        let show = || {
            let poll = polls.replace(polls.get() + 1);
            std::future::ready(states[poll.min(states.len() - 1)].clone())
        };
        let folder = UnitFolder::new(dir.path().to_owned());
        let waiting = wait_for_end(&folder, before, show);
        tokio::time::timeout(Duration::from_secs(3600), waiting).await.ok()
    }

    /// 1. An agent has ended with code 90 for the seventh time, and this was reported.
    /// 2. systemd starts it again after 30 s.
    #[tokio::test(start_paused = true)]
    async fn each_end_of_an_agent_is_reported_once_however_late_systemd_starts_it_again() {
        let before = failed("activating", 7, 90);
        assert_eq!(end_of(&before, std::slice::from_ref(&before)).await, None);
        let mut states = vec![before.clone(); 30];
        states.push(failed("activating", 8, 74));
        assert_eq!(end_of(&before, &states).await, Some(ProcessEnd::Code(74)), "it ended between two polls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_systemd_does_not_start_is_reported() {
        let before = failed("inactive", 7, 90);
        assert_eq!(end_of(&before, std::slice::from_ref(&before)).await, Some(ProcessEnd::NotStarted));
        let never = ServiceState::parse("");
        let starts_late = [never.clone(), never.clone(), failed("activating", 7, 5)];
        assert_eq!(end_of(&never, &starts_late).await, Some(ProcessEnd::Code(5)));
    }
}
