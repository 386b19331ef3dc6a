//! The agents as services of systemd: `pintle-machine.service`, and for each unit an instance of the template
//! `pintle-unit@.service`, named after its folder.
//!
//! The template lies in /run: the machine agent writes it at each start, so that it is always this program's, and
//! nothing of it is left after a reboot. Only `pintle-machine.service` is started by the boot.

use super::{ADOPTED_LOOK, Ended, ended, running};
use crate::folder::Folder;
use anyhow::{Context, Result, bail};
use host::file::{ignore_not_found, write_atomic, write_atomic_unsynced};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;

pub const MACHINE: &str = "pintle-machine.service";
const TEMPLATE: &str = "pintle-unit@.service";
/// Systemd runs here as process 1 (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// Units that an administrator, or a package, installed for good.
const INSTALLED: &str = "etc/systemd/system";
const WANTED: &str = "etc/systemd/system/multi-user.target.wants";

/// systemctl waits for a job: an agent that must be killed takes its 10 s.
const SYSTEMCTL_TAKES: Duration = Duration::from_secs(60);
/// Looks for an agent that systemd starts: 10 s, longer than its first back-offs.
const COME_UP_LOOKS: u32 = 20;

/// Systemd is in charge here, and we may give it orders.
pub fn is_running_system() -> bool {
    Path::new(BOOTED).is_dir() && nix::unistd::geteuid().is_root()
}

/// The instance of the template that runs a unit's agent.
fn service(folder: &Folder) -> String {
    TEMPLATE.replace('@', &format!("@{}", folder.tag()))
}

/// What a service of ours is, besides its program. A hook goes on when its agent ends (`KillMode=process`): its shim
/// writes the outcome, which the next agent finds. The watchdog's time is three times the longest that an agent works
/// without a pause: the 60 s in which it unpacks the largest charm. Where systemd is older than 254 there are no
/// steps, and it tries once a second. The sockets of hook tools lie in /run, not in /tmp.
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

/// Exit 15 is that of an agent which was told to end, or has read that its configuration changed.
fn template(program: &Path, data: &Path) -> String {
    let (program, data) = (program.display(), data.display());
    format!(
        "[Unit]
Description=Pintle: agent of %i
ConditionPathExists={data}/agents/%i/agent.yaml
ConditionPathExists=!{data}/agents/%i/finished
ConditionPathExists=!{data}/agents/%i/recalling
StartLimitIntervalSec=0

[Service]
ExecStart={program} unit --dir {data}/agents/%i
RestartForceExitStatus=15
{SERVICE}"
    )
}

fn machine(program: &Path, data: &Path) -> String {
    let (program, data) = (program.display(), data.display());
    format!(
        "[Unit]
Description=Pintle: agent of this machine
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

/// What is left to do of a machine that died, whatever of its folder is there.
fn removal(program: &Path, data: &Path) -> String {
    let (program, data) = (program.display(), data.display());
    format!(
        "[Unit]
Description=Pintle: takes away what is left of a removed machine

[Service]
Type=oneshot
ExecStart={program} uninstall --data {data}
"
    )
}

/// Paths stand in unit files as they are: only such as need no quotes.
fn require_plain(path: &Path) -> Result<()> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    if path.is_absolute() && path.as_os_str().as_encoded_bytes().iter().all(plain) {
        return Ok(());
    }
    bail!("{} cannot be a service's path: use letters, digits and /._- only", path.display())
}

/// Makes `pintle-machine.service` of the system that lies below `root`, begun at each boot.
pub fn install(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let (file, wanted) = (root.join(INSTALLED).join(MACHINE), root.join(WANTED));
    fs::create_dir_all(&wanted).with_context(|| wanted.display().to_string())?;
    write_atomic(&file, machine(program, data).as_bytes())?;
    match std::os::unix::fs::symlink(Path::new("/").join(INSTALLED).join(MACHINE), wanted.join(MACHINE)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// From the next boot on the service only goes on with the removal of the machine. Until then it is what it was: if its
/// agent dies now, it is started again.
pub fn replace_with_removal(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let file = root.join(INSTALLED).join(MACHINE);
    write_atomic(&file, removal(program, data).as_bytes()).with_context(|| file.display().to_string())
}

/// Whether it was turned into that; `data` is a path of the file, and need not be there.
pub fn is_removal(root: &Path, data: &Path) -> bool {
    let text = fs::read_to_string(root.join(INSTALLED).join(MACHINE)).unwrap_or_default();
    let end = format!(" uninstall --data {}", data.display());
    text.lines().any(|line| line.starts_with("ExecStart=") && line.ends_with(&end))
}

/// Starts what was installed into the system that runs here.
pub async fn begin() -> Result<()> {
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["restart", MACHINE]).await
}

/// Ends the machine's agent, if there is a service of it that runs.
pub async fn halt() -> Result<()> {
    ask(&["stop", MACHINE]).await.map(drop)
}

/// Sees that the template is this program's.
pub async fn prepare(data: &Path) -> Result<()> {
    let program = crate::program::path();
    require_plain(program)?;
    require_plain(data)?;
    let (place, text) = (Path::new(BOOTED).join(TEMPLATE), template(program, data));
    if fs::read_to_string(&place).ok().as_ref() != Some(&text) {
        write_atomic_unsynced(&place, text.as_bytes())?;
        systemctl(&["daemon-reload"]).await?;
    }
    Ok(())
}

/// Takes our unit files away; the service that asks runs on until it ends by itself.
pub async fn uninstall() -> Result<()> {
    let installed = Path::new("/").join(INSTALLED);
    let wanted = Path::new("/").join(WANTED);
    for file in [Path::new(BOOTED).join(TEMPLATE), wanted.join(MACHINE), installed.join(MACHINE)] {
        ignore_not_found(fs::remove_file(file))?;
    }
    systemctl(&["daemon-reload"]).await
}

/// Systemd starts it, and starts it again whenever it fails: then it is left to systemd's own back-off.
pub(super) fn start(folder: &Folder) -> Ended {
    let (service, folder) = (service(folder), folder.clone());
    Box::pin(async move {
        if !is_under_way(&service).await
            && let Err(error) = systemctl(&["start", "--no-block", &service]).await
        {
            tracing::warn!("{error:#}");
            return;
        }
        for _ in 0..COME_UP_LOOKS {
            if let Some(agent) = running(&folder) {
                return ended(agent).await;
            }
            tokio::time::sleep(ADOPTED_LOOK).await;
        }
    })
}

pub(super) async fn end(folder: &Folder) -> Result<()> {
    let service = service(folder);
    systemctl(&["stop", &service]).await?;
    // one that failed is remembered until then; one that did not is not known any more
    ask(&["reset-failed", &service]).await.map(drop)
}

/// Running, or waiting for its next start.
async fn is_under_way(service: &str) -> bool {
    let shown = ask(&["show", "--property=ActiveState", "--value", service]).await;
    shown.is_ok_and(|(_, state)| matches!(state.trim(), "active" | "activating" | "reloading"))
}

async fn systemctl(args: &[&str]) -> Result<()> {
    let (status, said) = ask(args).await?;
    if !status.success() {
        bail!("systemctl {}: {status}: {}", args.join(" "), said.trim());
    }
    Ok(())
}

async fn ask(args: &[&str]) -> Result<(ExitStatus, String)> {
    let mut command = Command::new("systemctl");
    let asked = command.args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    let output =
        tokio::time::timeout(SYSTEMCTL_TAKES, asked).await.context("systemctl does not answer")??;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status, String::from_utf8_lossy(&said).into_owned()))
}

/// What is mounted in a folder, the innermost first.
pub fn mounts_in(folder: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places =
        text.lines().filter_map(|line| line.split(' ').nth(1)).map(|place| PathBuf::from(unescaped(place)));
    let mut places: Vec<PathBuf> =
        places.filter(|place| place.starts_with(folder) && place != folder).collect();
    places.reverse();
    places
}

/// The kernel writes a space, a tab, a line end and a backslash as three octal digits.
fn unescaped(text: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_installed_into_a_system_that_is_not_running() {
        let root = tempfile::tempdir().unwrap();
        for _twice in 0..2 {
            let program = Path::new("/usr/local/lib/pintle/pintle-agent");
            install(root.path(), program, Path::new("/var/lib/pintle")).unwrap();
        }
        let text = fs::read_to_string(root.path().join("etc/systemd/system/pintle-machine.service")).unwrap();
        let begin = "ExecStart=/usr/local/lib/pintle/pintle-agent machine --data /var/lib/pintle --systemd\n";
        assert!(text.contains(begin), "{text}");
        let link = root.path().join("etc/systemd/system/multi-user.target.wants/pintle-machine.service");
        assert_eq!(
            fs::read_link(link).unwrap().display().to_string(),
            "/etc/systemd/system/pintle-machine.service"
        );
    }

    #[test]
    fn a_hook_survives_its_agent_and_a_finished_unit_is_not_started() {
        let text = template(Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
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
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn the_service_of_a_dead_machine_is_turned_into_its_removal_and_that_of_the_next_one_into_a_machine() {
        let root = tempfile::tempdir().unwrap();
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        assert!(!is_removal(root.path(), data), "there is no service");
        install(root.path(), program, data).unwrap();
        assert!(!is_removal(root.path(), data));
        replace_with_removal(root.path(), program, data).unwrap();
        assert!(is_removal(root.path(), data));
        assert!(!is_removal(root.path(), Path::new("/var/lib/other")));
        let link = root.path().join(WANTED).join(MACHINE);
        assert!(fs::symlink_metadata(link).unwrap().is_symlink(), "it is begun at each boot");
        let text = fs::read_to_string(root.path().join(INSTALLED).join(MACHINE)).unwrap();
        assert!(!text.contains("ConditionPathExists"), "whatever is left of the folder\n{text}");
        install(root.path(), program, data).unwrap();
        assert!(!is_removal(root.path(), data), "another machine was enrolled");
    }

    #[test]
    fn a_path_that_a_unit_file_would_read_otherwise_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for data in ["/var/lib/%h", "/var/lib/a b", "/var/lib/a\nExecStart=/bin/sh", "relative"] {
            assert!(install(root.path(), Path::new("/opt/pintle-agent"), Path::new(data)).is_err(), "{data}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing is written");
    }
}
