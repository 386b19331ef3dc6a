//! The agents as systemd services: `pintle-machine.service`, and for each unit an instance of the template
//! `pintle-unit@.service`, named after the unit's folder.
//!
//! The template is in /run: the machine agent writes it at each start, so that it always refers to the running
//! program, and a reboot removes it. Only `pintle-machine.service` is started at boot.
//!
//! Called by `service`, `uninstall`, and `machine_program` for `pintle-agent install` and at each start.

use super::agent_process::{AgentExit, EndedAgent, NON_CHILD_POLL_INTERVAL, running, wait_for_exit};
use crate::fault;
use crate::folder::UnitFolder;
use anyhow::{Context, Result, bail};
use api::AgentConfig;
use api::machine_folder::{AGENTS_DIR, FINISHED, RECALLING};
use host::file::{ignore_not_found, write_atomic, write_atomic_unsynced};
use host::program::HostProgram;
use state::terms::health::ProcessEnd;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The service of the machine agent.
pub const MACHINE: &str = "pintle-machine.service";
const TEMPLATE: &str = "pintle-unit@.service";
/// Exists if systemd runs as process 1 (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// The folder of unit files that an administrator or a package installs.
const INSTALLED: &str = "etc/systemd/system";
const WANTED: &str = "etc/systemd/system/multi-user.target.wants";

/// The time limit of systemctl, which waits for its job: stopping an agent that must be killed takes 10 s.
const SYSTEMCTL_LIMIT: Duration = Duration::from_secs(60);
/// Polls, 500 ms apart, for an agent that systemd starts: 10 s, longer than its first back-off delays.
const START_POLLS_MAX: u32 = 20;

/// Whether systemd manages this host and this process may use it.
pub fn can_be_used() -> bool {
    Path::new(BOOTED).is_dir() && nix::unistd::geteuid().is_root()
}

/// The name of the service of a unit agent.
fn service(folder: &UnitFolder) -> String {
    TEMPLATE.replace('@', &format!("@{}", folder.tag()))
}

/// The settings of all services of Pintle, except for the program. A hook continues when its agent is stopped
/// (`KillMode=process`): its shim stores the outcome, which the next agent reads. The watchdog interval is
/// three times the longest time that an agent works without a pause, the 60 s in which it unpacks the largest
/// charm. systemd before 254 ignores the steps of the restart delay and restarts once a second. The sockets of
/// hook tools are in /run, not in /tmp.
const SERVICE: &str = "Type=notify
WatchdogSec=180
Restart=on-failure
RestartSec=1
RestartSteps=8
RestartMaxDelaySec=30
KillMode=process
TimeoutStopSec=10
LimitCORE=0
OOMPolicy=continue
Environment=XDG_RUNTIME_DIR=/run
";

/// The template of the unit agents' services. An agent exits with 15 when it was signalled or its configuration
/// changed.
fn unit_agent_service(program: &Path, data: &Path) -> String {
    const CONFIG: &str = AgentConfig::FILE;
    let (program, folder) = (program.display(), format!("{}/{AGENTS_DIR}/%i", data.display()));
    format!(
        "[Unit]
Description=Pintle unit agent %i
ConditionPathExists={folder}/{CONFIG}
ConditionPathExists=!{folder}/{FINISHED}
ConditionPathExists=!{folder}/{RECALLING}
StartLimitIntervalSec=0

[Service]
ExecStart={program} unit --dir {folder}
RestartForceExitStatus=15
{SERVICE}"
    )
}

/// The service of the machine agent.
fn machine_agent_service(program: &Path, data: &Path) -> String {
    let (program, data) = (program.display(), data.display());
    format!(
        "[Unit]
Description=Pintle machine agent
After=network-online.target
Wants=network-online.target
ConditionPathExists={data}/agent.yaml
StartLimitIntervalSec=0

[Service]
ExecStart={program} machine --data {data} --systemd
{SERVICE}
[Install]
WantedBy=multi-user.target
"
    )
}

/// The service that finishes the removal of a Dead machine, whatever is left of its folder.
fn removal_service(program: &Path, data: &Path) -> String {
    let (program, data) = (program.display(), data.display());
    format!(
        "[Unit]
Description=Pintle: uninstall a removed machine

[Service]
Type=oneshot
ExecStart={program} uninstall --data {data}
"
    )
}

/// Paths are written into unit files without quoting, so only plain ones are accepted.
fn require_plain(path: &Path) -> Result<()> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    if path.is_absolute() && path.as_os_str().as_encoded_bytes().iter().all(plain) {
        return Ok(());
    }
    bail!("invalid path of a service {:?}: use an absolute path of letters, digits and /._-", path.display())
}

/// Installs `pintle-machine.service` into the system below `root`, to be started at each boot.
///
/// # Errors
/// If a path has characters that a unit file would interpret.
pub fn install(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let (file, wanted) = (root.join(INSTALLED).join(MACHINE), root.join(WANTED));
    fs::create_dir_all(&wanted).with_context(|| wanted.display().to_string())?;
    write_atomic(&file, machine_agent_service(program, data).as_bytes())?;
    match std::os::unix::fs::symlink(Path::new("/").join(INSTALLED).join(MACHINE), wanted.join(MACHINE)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Replaces the service by one that only resumes the removal of the machine. This takes effect at the next
/// boot: until then systemd restarts the old service if the agent ends.
///
/// # Errors
/// If the unit file cannot be written.
pub fn replace_with_removal(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let file = root.join(INSTALLED).join(MACHINE);
    write_atomic(&file, removal_service(program, data).as_bytes()).with_context(|| file.display().to_string())
}

/// Whether the service was replaced by [`replace_with_removal`] for the folder `data`, which need not exist.
pub fn is_removal(root: &Path, data: &Path) -> bool {
    let text = fs::read_to_string(root.join(INSTALLED).join(MACHINE)).unwrap_or_default();
    let end = format!(" uninstall --data {}", data.display());
    text.lines().any(|line| line.starts_with("ExecStart=") && line.ends_with(&end))
}

/// Starts the installed service of the machine agent.
///
/// # Errors
/// If systemctl fails.
pub async fn start_installed() -> Result<()> {
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["restart", MACHINE]).await.map(drop)
}

/// Stops the service of the machine agent, if it runs.
///
/// # Errors
/// If systemctl fails.
pub async fn stop_machine() -> Result<()> {
    attempt_systemctl(&["stop", MACHINE]).await
}

/// Writes the template of the unit agents' services, if it differs.
///
/// # Errors
/// If the file cannot be written, or systemctl fails.
pub async fn prepare(data: &Path) -> Result<()> {
    let program = crate::installed_programs::agent_program();
    require_plain(program)?;
    require_plain(data)?;
    let (file, text) = (Path::new(BOOTED).join(TEMPLATE), unit_agent_service(program, data));
    if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
        write_atomic_unsynced(&file, text.as_bytes())?;
        systemctl(&["daemon-reload"]).await?;
    }
    Ok(())
}

/// Deletes the unit files. The calling service continues until it ends.
///
/// # Errors
/// If a file cannot be deleted, or systemctl fails.
pub async fn uninstall() -> Result<()> {
    let installed = Path::new("/").join(INSTALLED);
    let wanted = Path::new("/").join(WANTED);
    for file in [Path::new(BOOTED).join(TEMPLATE), wanted.join(MACHINE), installed.join(MACHINE)] {
        ignore_not_found(fs::remove_file(file))?;
    }
    systemctl(&["daemon-reload"]).await.map(drop)
}

/// Starts a unit agent. systemd restarts an agent that fails, so nothing is done for a service that waits for its next
/// start.
pub(super) fn start(folder: &UnitFolder) -> AgentExit {
    let (service, folder) = (service(folder), folder.clone());
    Box::pin(async move {
        if !is_active(&service).await
            && let Err(error) = systemctl(&["start", "--no-block", &service]).await
        {
            tracing::warn!("{error:#}");
            return EndedAgent { end: ProcessEnd::NotStarted, last_line: Some(format!("{error:#}")) };
        }
        for _ in 0..START_POLLS_MAX {
            if let Some(agent) = running(&folder) {
                let ended = wait_for_exit(agent, folder.clone()).await;
                return EndedAgent { end: last_end(&service).await, ..ended };
            }
            tokio::time::sleep(NON_CHILD_POLL_INTERVAL).await;
        }
        EndedAgent { end: last_end(&service).await, last_line: None }
    })
}

/// How the main process of a service ended the last time.
async fn last_end(service: &str) -> ProcessEnd {
    let properties = "--property=ExecMainCode,ExecMainStatus";
    let shown = systemctl(&["show", properties, service]).await;
    shown.map_or(ProcessEnd::Unobserved, |text| end_of(&text))
}

/// The end that systemd shows: its code is that of `siginfo_t`, 1 for an exit and 2 or 3 for a signal.
fn end_of(text: &str) -> ProcessEnd {
    let number = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.trim().parse::<i32>().ok())
    };
    match (number("ExecMainCode"), number("ExecMainStatus")) {
        (Some(1), Some(code)) => ProcessEnd::Code(code),
        (Some(2 | 3), Some(signal)) => ProcessEnd::Signal(signal),
        _ => ProcessEnd::Unobserved,
    }
}

/// Stops a unit agent.
pub(super) async fn stop(folder: &UnitFolder) -> Result<()> {
    let service = service(folder);
    systemctl(&["stop", &service]).await?;
    // systemd lists a failed service until this command; for any other service the command fails, which is ignored
    attempt_systemctl(&["reset-failed", &service]).await
}

/// Whether the service runs or waits for its next start.
async fn is_active(service: &str) -> bool {
    let shown = systemctl(&["show", "--property=ActiveState", "--value", service]).await;
    shown.is_ok_and(|state| matches!(state.trim(), "active" | "activating" | "reloading"))
}

/// Runs systemctl and returns what it prints.
async fn systemctl(args: &[&str]) -> Result<String> {
    let ran = HostProgram::new("systemctl", args.iter().copied(), SYSTEMCTL_LIMIT).run().await;
    ran.map_err(fault::program_error)
}

/// Runs systemctl; it may report a failure.
async fn attempt_systemctl(args: &[&str]) -> Result<()> {
    match HostProgram::new("systemctl", args.iter().copied(), SYSTEMCTL_LIMIT).run().await {
        Err(error) if !error.is_exit() => Err(fault::program_error(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_installed_into_a_system_that_is_not_running() {
        let root = tempfile::tempdir().unwrap();
        for _twice in 0..2 {
            let program = Path::new("/usr/local/lib/pintle/pintle-agent");
            install(root.path(), program, Path::new("/var/lib/pintle")).unwrap();
        }
        let text = fs::read_to_string(root.path().join("etc/systemd/system/pintle-machine.service")).unwrap();
        let start = "ExecStart=/usr/local/lib/pintle/pintle-agent machine --data /var/lib/pintle --systemd\n";
        assert!(text.contains(start), "{text}");
        let link = root.path().join("etc/systemd/system/multi-user.target.wants/pintle-machine.service");
        assert_eq!(
            fs::read_link(link).unwrap().display().to_string(),
            "/etc/systemd/system/pintle-machine.service"
        );
    }

    #[test]
    fn the_end_of_a_service_is_read_as_systemd_shows_it() {
        assert_eq!(end_of("ExecMainCode=1\nExecMainStatus=90\n"), ProcessEnd::Code(90));
        assert_eq!(end_of("ExecMainStatus=9\nExecMainCode=2\n"), ProcessEnd::Signal(9));
        assert_eq!(end_of("ExecMainCode=0\nExecMainStatus=0\n"), ProcessEnd::Unobserved);
    }

    #[test]
    fn a_hook_survives_its_agent_and_a_finished_unit_is_not_started() {
        let text = unit_agent_service(Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        for line in [
            "Type=notify",
            "KillMode=process",
            "Restart=on-failure",
            "WatchdogSec=180",
            "RestartForceExitStatus=15",
            "ExecStart=/opt/pintle-agent unit --dir /var/lib/pintle/agents/%i",
            "ConditionPathExists=!/var/lib/pintle/agents/%i/finished",
            "ConditionPathExists=!/var/lib/pintle/agents/%i/recalling",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn the_service_of_a_dead_machine_is_replaced_by_its_removal_until_the_next_machine_is_installed() {
        let root = tempfile::tempdir().unwrap();
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        assert!(!is_removal(root.path(), data), "there is no service");
        install(root.path(), program, data).unwrap();
        assert!(!is_removal(root.path(), data));
        replace_with_removal(root.path(), program, data).unwrap();
        assert!(is_removal(root.path(), data));
        assert!(!is_removal(root.path(), Path::new("/var/lib/other")));
        let link = root.path().join(WANTED).join(MACHINE);
        assert!(fs::symlink_metadata(link).unwrap().is_symlink(), "it is started at each boot");
        let text = fs::read_to_string(root.path().join(INSTALLED).join(MACHINE)).unwrap();
        assert!(!text.contains("ConditionPathExists"), "whatever is left of the folder\n{text}");
        install(root.path(), program, data).unwrap();
        assert!(!is_removal(root.path(), data), "another machine was enrolled");
    }

    #[test]
    fn a_path_that_a_unit_file_would_interpret_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for data in ["/var/lib/%h", "/var/lib/a b", "/var/lib/a\nExecStart=/bin/sh", "relative"] {
            assert!(install(root.path(), Path::new("/opt/pintle-agent"), Path::new(data)).is_err(), "{data}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing is written");
    }
}
