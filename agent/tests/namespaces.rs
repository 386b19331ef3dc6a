//! Tests that would damage this host: each runs again in its own namespaces, where it is process 1 and root,
//! and where its mounts and kills affect nothing else.

use agent::config;
use agent::deployer::Deployer;
use agent::service::{Supervision, unit_files};
use agent::uninstall;
use api::{AgentConfig, AgentKind};
use hook_client::shim::SHIM_PID;
use host::file::write_atomic_unsynced;
use host::process::Process;
use state::terms::names::{UnitName, Uuid};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names the test which runs inside its namespaces.
const INSIDE: &str = "PINTLE_TEST_INSIDE";
const AGENT: &str = env!("CARGO_BIN_EXE_pintle-agent");

/// Runs the test of this name again in new namespaces. Inside them, runs `test`.
fn in_namespaces(name: &str, test: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return test();
    }
    let this = std::env::current_exe().expect("the path of the program is available");
    let again = Command::new("unshare")
        .args(namespaces())
        .arg(this)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, name)
        .output()
        .expect("unshare is there: tests/prerequisites.sh");
    let (stdout, stderr) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// The arguments of `unshare` that work here: those for root, or those with a user namespace.
fn namespaces() -> &'static [&'static str] {
    let variants: [&[&str]; 2] = [
        &["--mount", "--pid", "--fork", "--mount-proc"],
        &["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"],
    ];
    let works = |variant: &&&[&str]| {
        let tried = Command::new("unshare").args(**variant).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    variants.iter().find(works).expect("make test needs namespaces: be root, or allow user namespaces")
}

/// No process of a pid namespace can kill its process 1, which represents a hook that hangs in a system call.
#[test]
fn a_hook_that_cannot_be_killed_does_not_block_the_machine_agent() {
    in_namespaces("a_hook_that_cannot_be_killed_does_not_block_the_machine_agent", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let machine = tempfile::tempdir().expect("a folder");
            let machine_config = config(AgentKind::Machine, "0");
            let deployer = Deployer::new(machine.path().to_path_buf(), machine_config, Supervision::Children);
            let name = UnitName::new("web", 0);
            deployer.prepare(Uuid(6), &name).expect("it is made");
            let folder = deployer.folder(&name);
            fs::create_dir_all(folder.run(1)).expect("made");
            Process::current().write(&folder.run(1).join(SHIM_PID)).expect("written");
            let stopped =
                tokio::time::timeout(std::time::Duration::from_secs(60), deployer.stop(&folder)).await;
            let error = stopped.expect("stop must not block other units").expect_err("it lives").to_string();
            assert!(error.contains(&folder.run(1).display().to_string()), "{error}");
            Process { pid: 1, start: 1 }.write(&folder.run(1).join(SHIM_PID)).expect("written");
            deployer.stop(&folder).await.expect("the hook has ended");
        });
    });
}

fn config(kind: AgentKind, name: &str) -> AgentConfig {
    AgentConfig {
        kind,
        uuid: Uuid(6),
        name: name.to_owned(),
        model: Uuid(2),
        controllers: vec!["127.0.0.1:1".to_owned()],
        server_name: "here".to_owned(),
        ca: String::new(),
        token: "ab".repeat(32),
        machine: String::new(),
    }
}

fn mount(folder: &Path) {
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(folder).status();
    assert!(mounted.is_ok_and(|status| status.success()), "{}", folder.display());
}

/// Makes the host look as if systemd runs. Returns the folder of a `systemctl` that can stop only units that
/// have a file.
fn fake_systemd(parent: &Path) -> PathBuf {
    mount(Path::new("/run"));
    mount(Path::new("/etc"));
    for folder in ["/run/systemd/system", "/etc/systemd/system/multi-user.target.wants"] {
        fs::create_dir_all(folder).expect("made");
    }
    let programs = parent.join("programs");
    fs::create_dir(&programs).expect("made");
    let script = "#!/bin/sh\n\
        if [ \"$1\" = stop ] && [ ! -e /run/systemd/system/pintle-unit@.service ]; then\n\
            echo \"Failed to stop $2: Unit $2 not loaded.\"; exit 5\n\
        fi\n";
    fs::write(programs.join("systemctl"), script).expect("written");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(programs.join("systemctl"), mode).expect("it belongs to this test");
    programs
}

fn dead_machine(parent: &Path) -> PathBuf {
    let data = parent.join("pintle");
    let unit = data.join("agents/unit-web-0");
    fs::create_dir_all(&unit).expect("made");
    write_atomic_unsynced(
        &data.join(AgentConfig::FILE),
        config::to_yaml(&config(AgentKind::Machine, "0")).as_bytes(),
    )
    .expect("written");
    write_atomic_unsynced(
        &unit.join(AgentConfig::FILE),
        config::to_yaml(&config(AgentKind::Unit, "web/0")).as_bytes(),
    )
    .expect("written");
    uninstall::mark_dead(&data).expect("written");
    data
}

fn agent(programs: &Path) -> Command {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut agent = Command::new(AGENT);
    agent.env("PATH", path).stdin(Stdio::null()).stderr(Stdio::piped());
    agent
}

/// 1. A machine is Dead, and its unit agents are services.
/// 2. The host reboots, which deletes the template of these services.
#[test]
fn uninstalling_resumes_after_a_reboot() {
    in_namespaces("uninstalling_resumes_after_a_reboot", || {
        let parent = tempfile::tempdir().expect("a folder");
        let (programs, data) = (fake_systemd(parent.path()), dead_machine(parent.path()));
        let mut agent = agent(&programs);
        let mut agent = agent.args(["machine", "--data"]).arg(&data).arg("--systemd").spawn();
        let agent = agent.as_mut().expect("it runs");
        let mut lines = BufReader::new(agent.stderr.take().expect("piped")).lines().map_while(Result::ok);
        // the controller is unreachable, which is logged after the units are removed
        let last = lines.find(|line| line.contains(" WARN ") || line.contains("ERROR"));
        agent.kill().and_then(|()| agent.wait()).expect("it belongs to this test");
        assert!(last.as_ref().is_some_and(|line| line.contains(" WARN ")), "{last:?}");
        assert!(!data.join("agents/unit-web-0").exists(), "{last:?}");
    });
}

/// 1. A machine is uninstalled until only its folder is left.
/// 2. The host reboots.
#[test]
fn the_removal_service_deletes_the_remaining_folder_and_itself() {
    in_namespaces("the_removal_service_deletes_the_remaining_folder_and_itself", || {
        let parent = tempfile::tempdir().expect("a folder");
        let (programs, data) = (fake_systemd(parent.path()), parent.path().join("pintle"));
        // a mount point cannot be deleted, which interrupts the removal
        fs::create_dir(&data).expect("made");
        mount(&data);
        dead_machine(parent.path());
        unit_files::install(Path::new("/"), Path::new(AGENT), &data).expect("installed");
        let file = Path::new("/etc/systemd/system/pintle-machine.service");
        let uninstall = || agent(&programs).args(["uninstall", "--data"]).arg(&data).output();
        assert!(!uninstall().expect("it runs").status.success(), "the removal was not started");
        assert!(file.exists() && data.join(AgentConfig::FILE).exists());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(uninstall::uninstall(&data)).expect_err("it cannot be removed");
        assert!(file.exists() && !data.join(AgentConfig::FILE).exists());
        let unmounted = Command::new("umount").arg(&data).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        let line = fs::read_to_string(file).expect("the file exists");
        let line = line.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a program");
        let ran = agent(&programs).args(line.split(' ').skip(1)).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(!data.exists() && !file.exists());
        assert_eq!(fs::read_dir("/etc/systemd/system/multi-user.target.wants").expect("there").count(), 0);
    });
}
