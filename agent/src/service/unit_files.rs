//! The unit files of the agents: `pintle-machine.service`, and the template `pintle-unit@.service` of which each unit has
//! an instance, named after its folder.
//!
//! A file is installed below a root that need not be the running system. Paths are written without quoting, so that
//! those which systemd would interpret are refused. Only `pintle-machine.service` is started at boot.
//!
//! Called by `systemd`, `uninstall`, and `pintle-agent install` (`machine_program`; `arguments` with `--root`).

use crate::observation::AGENT_LOG;
use anyhow::{Context, Result, bail};
use api::AgentConfig;
use api::machine_folder::{AGENTS_DIR, FINISHED, RECALLING};
use host::file::{ignore_not_found, read_regular_text, sync_folder, write_atomic};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// The service of the machine agent.
pub(super) const MACHINE_SERVICE: &str = "pintle-machine.service";
/// The template of the services of the unit agents.
pub(super) const UNIT_TEMPLATE: &str = "pintle-unit@.service";
/// The folder of unit files that an administrator or a package installs.
pub(super) const UNIT_FILE_DIR: &str = "etc/systemd/system";
/// The folder of the links to the services that are started at boot.
pub(super) const WANTS_DIR: &str = "etc/systemd/system/multi-user.target.wants";

/// The settings of all services of Pintle, except for the program. A hook continues when its agent is stopped
/// (`KillMode=process`): its shim stores the outcome, which the next agent reads. The watchdog interval is
/// three times the longest time that an agent works without a pause, the 60 s in which it unpacks the largest
/// charm. An agent exits with 15 (`exit_code::RESTART`) when it was signalled or its configuration changed: it is started again, unless systemd has
/// stopped it, which is no failure.
const SERVICE: &str = "Type=notify
WatchdogSec=180
Restart=on-failure
SuccessExitStatus=15
RestartForceExitStatus=15
RestartSec=1
KillMode=process
TimeoutStopSec=10
LimitCORE=0
OOMPolicy=continue
";

/// The version from which systemd knows [`RESTART_STEPS`]. Earlier ones warn about them, and restart once a second.
const RESTART_STEPS_SINCE: u32 = 254;
/// The largest unit file: some lines, with the paths of a program and a folder.
const UNIT_FILE_BYTES_MAX: u64 = 64 << 10;

/// The steps of the delay between two starts.
const RESTART_STEPS: &str = "RestartSteps=8\nRestartMaxDelaySec=30\n";

/// The settings of all services of Pintle that a systemd of this version knows; none if it is not known.
fn settings(version: Option<u32>) -> String {
    let steps = if version >= Some(RESTART_STEPS_SINCE) { RESTART_STEPS } else { "" };
    format!("{SERVICE}{steps}")
}

/// The version in the first line of `systemctl --version`: `systemd 252 (252.30-1~deb12u2)`, or `systemd 256~rc1 (…)`.
fn parse_version(text: &str) -> Option<u32> {
    let word = text.lines().next()?.strip_prefix("systemd ")?.split_whitespace().next()?;
    word.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The version of the systemd of the system below `root`. None if it has no systemd.
pub(super) fn systemd_version(root: &Path) -> Option<u32> {
    let mut command = match root == Path::new("/") {
        true => Command::new("systemctl"),
        false => Command::new("chroot"),
    };
    if root != Path::new("/") {
        command.arg(root).arg("systemctl");
    }
    let printed = command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    parse_version(&String::from_utf8_lossy(&printed.stdout))
}

/// The template of the unit agents' services. Their log is that of an agent without systemd, which rotates it itself.
pub(super) fn unit_agent_service(program: &Path, data: &Path, version: Option<u32>) -> String {
    const CONFIG: &str = AgentConfig::FILE;
    let (program, data) = (program.display(), data.display());
    let folder = format!("{data}/{AGENTS_DIR}/%i");
    let settings = settings(version);
    format!(
        "[Unit]
Description=Pintle unit agent %i
RequiresMountsFor={data}
ConditionPathExists={folder}/{CONFIG}
ConditionPathExists=!{folder}/{FINISHED}
ConditionPathExists=!{folder}/{RECALLING}
StartLimitIntervalSec=0

[Service]
ExecStart={program} unit --dir {folder}
UMask=0077
StandardOutput=append:{folder}/{AGENT_LOG}
StandardError=append:{folder}/{AGENT_LOG}
{settings}"
    )
}

/// The service of the machine agent. Its condition is evaluated once, so the disk of the folder must be mounted before.
fn machine_agent_service(program: &Path, data: &Path, version: Option<u32>) -> String {
    let (program, data) = (program.display(), data.display());
    let settings = settings(version);
    format!(
        "[Unit]
Description=Pintle machine agent
After=network-online.target
Wants=network-online.target
RequiresMountsFor={data}
ConditionPathExists={data}/agent.yaml
StartLimitIntervalSec=0

[Service]
ExecStart={program} machine --data {data} --systemd
{settings}
[Install]
WantedBy=multi-user.target
"
    )
}

/// The line of a unit file that permits to delete the folder of a Dead machine. systemd ignores keys that begin with
/// `X-`.
fn removal_mark(data: &Path) -> String {
    format!("X-Pintle-Removes={}", data.display())
}

/// The service that finishes the removal of a Dead machine, whatever is left of its folder, once its disk is mounted.
fn removal_service(program: &Path, data: &Path) -> String {
    let (program, mark, data) = (program.display(), removal_mark(data), data.display());
    format!(
        "[Unit]
Description=Pintle: uninstall a removed machine
RequiresMountsFor={data}
{mark}

[Service]
Type=oneshot
ExecStart={program} uninstall --data {data}
"
    )
}

/// Paths are written into unit files without quoting, so only plain ones are accepted.
pub(super) fn require_plain(path: &Path) -> Result<()> {
    if path.is_absolute() && is_plain(path) {
        return Ok(());
    }
    bail!("invalid path of a service {:?}: use an absolute path of letters, digits and /._-", path.display())
}

/// Whether a path has only characters that systemd does not interpret.
pub(super) fn is_plain(path: &Path) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    path.as_os_str().as_encoded_bytes().iter().all(plain)
}

/// Installs `pintle-machine.service` into the system below `root`, to be started at each boot.
///
/// # Errors
/// If a path has characters that a unit file would interpret.
pub fn install(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let (file, wanted) = (root.join(UNIT_FILE_DIR).join(MACHINE_SERVICE), root.join(WANTS_DIR));
    fs::create_dir_all(&wanted).with_context(|| wanted.display().to_string())?;
    // this makes the folder of the link durable, too: it is in the folder of the file
    let text = machine_agent_service(program, data, systemd_version(root));
    write_atomic(&file, text.as_bytes())?;
    make_readable(&file).with_context(|| file.display().to_string())?;
    let (link, target) =
        (wanted.join(MACHINE_SERVICE), Path::new("/").join(UNIT_FILE_DIR).join(MACHINE_SERVICE));
    if fs::read_link(&link).ok().as_ref() != Some(&target) {
        ignore_not_found(fs::remove_file(&link))?;
        symlink(&target, &link).with_context(|| link.display().to_string())?;
    }
    sync_folder(&wanted).with_context(|| wanted.display().to_string())
}

/// Replaces the service by one that only resumes the removal of the machine. This takes effect at the next
/// boot: until then systemd restarts the old service if the agent ends.
///
/// # Errors
/// If the unit file cannot be written.
pub fn replace_with_removal(root: &Path, program: &Path, data: &Path) -> Result<()> {
    require_plain(program)?;
    require_plain(data)?;
    let file = root.join(UNIT_FILE_DIR).join(MACHINE_SERVICE);
    write_atomic(&file, removal_service(program, data).as_bytes())
        .and_then(|()| make_readable(&file))
        .with_context(|| file.display().to_string())
}

/// Gives a unit file the mode of the others: systemd logs a warning at each reload about one that only root can read.
pub(super) fn make_readable(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o644))
}

/// Whether the service was replaced by [`replace_with_removal`] for the folder `data`, which need not exist.
pub fn is_removal(root: &Path, data: &Path) -> bool {
    let text = read_regular_text(&root.join(UNIT_FILE_DIR).join(MACHINE_SERVICE), UNIT_FILE_BYTES_MAX);
    let text = text.unwrap_or_default();
    text.lines().any(|line| line == removal_mark(data))
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
        let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("etc/systemd/system/pintle-machine.service"), 0o644);
        let link = root.path().join("etc/systemd/system/multi-user.target.wants/pintle-machine.service");
        assert_eq!(
            fs::read_link(link).unwrap().display().to_string(),
            "/etc/systemd/system/pintle-machine.service"
        );
    }

    /// The value of a key that a unit file has once.
    fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().filter(|_| values.next().is_none())
    }

    /// The folder may be on a disk that is mounted late. Without this, the conditions are evaluated before, and a removal
    /// would take the folder for one that is deleted.
    #[test]
    fn each_service_waits_for_the_disk_of_its_folder() {
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        let agents = [machine_agent_service, unit_agent_service].map(|text| text(program, data, None));
        for text in agents.into_iter().chain([removal_service(program, data)]) {
            assert_eq!(value(&text, "RequiresMountsFor"), Some("/var/lib/pintle"), "{text}");
            let unit = text.split("\n[Service]").next().unwrap();
            assert!(unit.contains("RequiresMountsFor"), "systemd ignores it in another section\n{text}");
        }
    }

    #[test]
    fn an_agent_that_systemd_stops_has_not_failed_and_one_that_restarts_is_started_again() {
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        let code = crate::exit_code::RESTART.to_string();
        for text in [machine_agent_service, unit_agent_service].map(|text| text(program, data, None)) {
            assert_eq!(value(&text, "SuccessExitStatus"), Some(&*code), "{text}");
            assert_eq!(value(&text, "RestartForceExitStatus"), Some(&*code), "{text}");
        }
    }

    /// systemd writes a warning to the journal for each key that it does not know.
    #[test]
    fn a_service_has_only_keys_that_its_systemd_knows() {
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        for (printed, version, has_steps) in [
            ("systemd 249 (249.11-0ubuntu3.12)\n+PAM +AUDIT\n", Some(249), false),
            ("systemd 253 (253)\n", Some(253), false),
            ("systemd 254 (254.4-1)\n", Some(254), true),
            ("systemd 256~rc3 (256~rc3-1)\n", Some(256), true),
            ("systemd devel\n", None, false),
            ("", None, false),
        ] {
            assert_eq!(parse_version(printed), version, "{printed}");
            for text in [machine_agent_service, unit_agent_service] {
                let text = text(program, data, version);
                let steps = ["RestartSteps", "RestartMaxDelaySec"].map(|key| value(&text, key).is_some());
                assert_eq!(steps, [has_steps; 2], "{printed}{text}");
            }
        }
    }

    /// Otherwise the last error of an agent would be that of an earlier agent, which was no service.
    #[test]
    fn the_log_of_an_agent_is_in_its_folder_whatever_started_it() {
        let text = unit_agent_service(Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"), None);
        for key in ["StandardOutput", "StandardError"] {
            assert_eq!(value(&text, key), Some("append:/var/lib/pintle/agents/%i/agent.log"), "{text}");
        }
    }

    /// A link that an administrator or an earlier version has made leads nowhere.
    #[test]
    fn an_installation_replaces_a_link_to_another_file_and_makes_its_own_durable() {
        const ROOT: &str = "PINTLE_TEST_SYNCED_ROOT";
        const THIS: &str = "service::unit_files::tests::an_installation_replaces_a_link_to_another_file_and_makes_its_own_durable";
        let (program, data) = (Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"));
        if let Some(root) = std::env::var_os(ROOT) {
            return install(Path::new(&root), program, data).unwrap();
        }
        let root = tempfile::tempdir().unwrap();
        let (calls, wants) = (root.path().join("calls"), root.path().join(WANTS_DIR));
        fs::create_dir_all(&wants).unwrap();
        symlink("/nonexistent", wants.join(MACHINE_SERVICE)).unwrap();
        let traced = std::process::Command::new("strace")
            .args(["-f", "-y", "-e", "trace=fsync,symlink,symlinkat", "-o"])
            .arg(&calls)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", THIS])
            .env(ROOT, root.path())
            .output();
        assert!(traced.expect("strace is installed").status.success());
        let target = Path::new("/").join(UNIT_FILE_DIR).join(MACHINE_SERVICE);
        assert_eq!(fs::read_link(wants.join(MACHINE_SERVICE)).unwrap(), target);
        let calls = fs::read_to_string(calls).unwrap();
        let linked = calls.lines().position(|call| call.contains("symlink")).expect("it is linked");
        let folder = format!("<{}>", wants.display());
        let synced = calls.lines().skip(linked).any(|call| call.contains(&folder) && call.ends_with("= 0"));
        assert!(synced, "{calls}");
    }

    #[test]
    fn a_hook_survives_its_agent_and_a_finished_unit_is_not_started() {
        let text = unit_agent_service(Path::new("/opt/pintle-agent"), Path::new("/var/lib/pintle"), None);
        for line in [
            "Type=notify",
            "KillMode=process",
            "Restart=on-failure",
            "WatchdogSec=180",
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
        let file = root.path().join(UNIT_FILE_DIR).join(MACHINE_SERVICE);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(&removal_mark(data), &format!("{} ", removal_mark(data)))).unwrap();
        assert!(!is_removal(root.path(), data), "the mark was edited");
        let start = "uninstall --data /var/lib/pintle";
        fs::write(&file, text.replace(start, &format!("{start} --verbose"))).unwrap();
        assert!(is_removal(root.path(), data), "an administrator may change how the program is started");
        let link = root.path().join(WANTS_DIR).join(MACHINE_SERVICE);
        assert!(fs::symlink_metadata(link).unwrap().is_symlink(), "it is started at each boot");
        let text = fs::read_to_string(file).unwrap();
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
