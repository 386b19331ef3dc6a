//! What would harm this host: each test runs again in namespaces of its own, where it is process 1 and root, and what it
//! mounts and kills is nobody else's.

use agent::config::{AgentConfig, FILE, AgentKind};
use agent::deployer::Deployer;
use agent::service::{ServiceManager, systemd};
use agent::shim::SHIM_PID;
use agent::uninstall;
use host::file::write_atomic_unsynced;
use host::process::Process;
use state::terms::names::{UnitName, Uuid};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the test that runs inside of its namespaces.
const INSIDE: &str = "PINTLE_TEST_INSIDE";
const AGENT: &str = env!("CARGO_BIN_EXE_pintle-agent");

/// Runs a test again in its namespaces; inside of them, runs `test`.
fn apart(name: &str, test: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return test();
    }
    let this = std::env::current_exe().expect("a process knows its program");
    let again = Command::new("unshare")
        .args(namespaces())
        .arg(this)
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, name)
        .output()
        .expect("unshare is there: tests/prerequisites.sh");
    let (said, complained) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
}

/// How `unshare` makes them here: root may, others where user namespaces are allowed.
fn namespaces() -> &'static [&'static str] {
    let ways: [&[&str]; 2] = [
        &["--mount", "--pid", "--fork", "--mount-proc"],
        &["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"],
    ];
    let works = |way: &&&[&str]| {
        let tried = Command::new("unshare").args(**way).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    ways.iter().find(works).expect("make test needs namespaces: be root, or allow user namespaces")
}

/// The kernel lets nobody in a namespace end its process 1: that stands for one that hangs in a system call.
#[test]
fn a_hook_that_cannot_be_killed_does_not_stop_the_machines_agent() {
    apart("a_hook_that_cannot_be_killed_does_not_stop_the_machines_agent", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let machine = tempfile::tempdir().expect("a folder");
            let own = config(AgentKind::Machine, "0");
            let deployer = Deployer::new(machine.path().to_path_buf(), own, ServiceManager::Children);
            let name = UnitName::new("web", 0);
            deployer.prepare(Uuid(6), &name).expect("it is made");
            let folder = deployer.folder(&name);
            fs::create_dir_all(folder.run(1)).expect("made");
            Process::this().write(&folder.run(1).join(SHIM_PID)).expect("written");
            let stopped =
                tokio::time::timeout(std::time::Duration::from_secs(60), deployer.stop(&folder)).await;
            let error = stopped.expect("other units wait for it").expect_err("it lives").to_string();
            assert!(error.contains("a killed hook does not end"), "{error}");
            Process { pid: 1, start: 1 }.write(&folder.run(1).join(SHIM_PID)).expect("written");
            deployer.stop(&folder).await.expect("it ended at last");
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

/// A host where systemd seems to run; answers where its `systemctl` is, which stops what it has a file for.
fn begin_systemd(place: &Path) -> PathBuf {
    mount(Path::new("/run"));
    mount(Path::new("/etc"));
    for folder in ["/run/systemd/system", "/etc/systemd/system/multi-user.target.wants"] {
        fs::create_dir_all(folder).expect("made");
    }
    let programs = place.join("programs");
    fs::create_dir(&programs).expect("made");
    let script = "#!/bin/sh\n\
        if [ \"$1\" = stop ] && [ ! -e /run/systemd/system/pintle-unit@.service ]; then\n\
            echo \"Failed to stop $2: Unit $2 not loaded.\"; exit 5\n\
        fi\n";
    fs::write(programs.join("systemctl"), script).expect("written");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(programs.join("systemctl"), mode).expect("it is ours");
    programs
}

fn dead_machine(place: &Path) -> PathBuf {
    let data = place.join("pintle");
    let unit = data.join("agents/unit-web-0");
    fs::create_dir_all(&unit).expect("made");
    write_atomic_unsynced(&data.join(FILE), config(AgentKind::Machine, "0").to_yaml().as_bytes()).expect("written");
    write_atomic_unsynced(&unit.join(FILE), config(AgentKind::Unit, "web/0").to_yaml().as_bytes()).expect("written");
    uninstall::note_dead(&data).expect("written");
    data
}

fn agent(programs: &Path) -> Command {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut agent = Command::new(AGENT);
    agent.env("PATH", path).stdin(Stdio::null()).stderr(Stdio::piped());
    agent
}

/// 1. A machine is Dead, and its units' agents are services. 2. It reboots: the template of those is gone.
#[test]
fn a_retirement_goes_on_after_a_reboot() {
    apart("a_retirement_goes_on_after_a_reboot", || {
        let place = tempfile::tempdir().expect("a folder");
        let (programs, data) = (begin_systemd(place.path()), dead_machine(place.path()));
        let mut agent = agent(&programs);
        let mut agent = agent.args(["machine", "--data"]).arg(&data).arg("--systemd").spawn();
        let agent = agent.as_mut().expect("it runs");
        let mut said = BufReader::new(agent.stderr.take().expect("piped")).lines().map_while(Result::ok);
        // there is no controller to be told
        let last = said.find(|line| line.contains(" WARN ") || line.contains("ERROR"));
        agent.kill().and_then(|()| agent.wait()).expect("it is ours");
        assert!(last.as_ref().is_some_and(|line| line.contains(" WARN ")), "{last:?}");
        assert!(!data.join("agents/unit-web-0").exists(), "{last:?}");
    });
}

/// 1. A machine retires: of its folder all is gone but the folder. 2. It reboots.
#[test]
fn the_service_of_a_machine_that_has_retired_removes_what_is_left_and_itself() {
    apart("the_service_of_a_machine_that_has_retired_removes_what_is_left_and_itself", || {
        let place = tempfile::tempdir().expect("a folder");
        let (programs, data) = (begin_systemd(place.path()), place.path().join("pintle"));
        // what is mounted there cannot be removed: so the retirement ends in the middle
        fs::create_dir(&data).expect("made");
        mount(&data);
        dead_machine(place.path());
        systemd::install(Path::new("/"), Path::new(AGENT), &data).expect("installed");
        let file = Path::new("/etc/systemd/system/pintle-machine.service");
        let uninstall = || agent(&programs).args(["uninstall", "--data"]).arg(&data).output();
        assert!(!uninstall().expect("it runs").status.success(), "its retirement was not begun");
        assert!(file.exists() && data.join(FILE).exists());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(uninstall::uninstall(&data)).expect_err("it cannot be removed");
        assert!(file.exists() && !data.join(FILE).exists());
        let unmounted = Command::new("umount").arg(&data).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        let line = fs::read_to_string(file).expect("it is there");
        let line = line.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a program");
        let ran = agent(&programs).args(line.split(' ').skip(1)).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(!data.exists() && !file.exists());
        assert_eq!(fs::read_dir("/etc/systemd/system/multi-user.target.wants").expect("there").count(), 0);
    });
}
