//! Tests machines that are systemd-nspawn containers with their own system and address, whose agents are services.
//!
//! Requires root and the packages of tests/prerequisites.sh. The base system is built once, in target/machines.
//! `PINTLE_KILL_MINUTES=10` kills random processes for ten minutes at the end.

mod bases;
mod booted;
mod storage;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::host::{Host, is_root, skip};
use tests::scene::text;

/// Each hook logs its start and end, and waits in between while a gate file exists. Two values of the setting make
/// config-changed reboot the machine: one after the hook, the other, once, immediately.
const HOOK: &str = r#"#!/bin/sh
name=${0##*/}
echo "begin $name" >> /var/log/hooks
while [ -e /var/gate ]; do sleep 0.05; done
case "$name $(config-get word)" in
"config-changed after") juju-reboot ;;
"config-changed now") [ -e /var/now ] || { touch /var/now; juju-reboot --now; } ;;
esac
echo "end $name" >> /var/log/hooks
status-set active "$(config-get word)"
"#;

/// The principal charm.
const SLOW: &str = "name: slow\nsummary: waits\ndescription: waits\n";
/// The subordinate charm, which logs to another file.
const BESIDE: &str = "name: beside\nsummary: waits too\ndescription: waits too\nsubordinate: true\n\
                      requires:\n  host: {interface: juju-info, scope: container}\n";

fn charm(at: &Path, name: &str, metadata: &str) -> PathBuf {
    let charm = at.join(name);
    fs::create_dir_all(charm.join("hooks")).expect("a new folder");
    fs::write(charm.join("metadata.yaml"), metadata).expect("written");
    let config = "options:\n  word: {type: string, default: one, description: a word}\n";
    fs::write(charm.join("config.yaml"), config).expect("written");
    for hook in ["install", "config-changed", "start", "stop"] {
        let path = charm.join("hooks").join(hook);
        let log = if name == "slow" { "/var/log/hooks".to_owned() } else { format!("/var/log/{name}") };
        fs::write(&path, HOOK.replace("/var/log/hooks", &log)).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("it is ours");
    }
    charm
}

/// Waits until a child has ended, and continues it whenever it is stopped. Returns its output.
///
/// Race: 1. The system of a machine shuts down, and first stops all its processes. 2. nsenter stops together with its
/// child. 3. The child is killed, and the system waits forever for nsenter to reap it.
fn output_of(child: Child) -> Option<Output> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?);
    // `Child` reaps the process
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
    while let WaitStatus::Stopped(..) = waitid(Id::Pid(pid), flags).ok()? {
        kill(pid, Signal::SIGCONT).ok()?;
    }
    child.wait_with_output().ok()
}

#[test]
fn a_child_that_is_stopped_is_continued() {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s STOP $$; echo once; kill -s STOP $$; exit 3"]).stdout(Stdio::piped());
    let output = output_of(command.spawn().expect("sh exists")).expect("it ends");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"once\n"[..]));
}

/// The one machine of a data folder.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn of(host: &Host) -> Option<Machine> {
        let folders = fs::read_dir(host.dir.join("machines")).ok()?.flatten();
        folders.map(|entry| Machine { folder: entry.path() }).find(|one| one.leader().is_some())
    }

    fn root(&self, path: &str) -> PathBuf {
        self.folder.join("root").join(path)
    }

    /// Returns the host's process id of process 1 of the machine.
    fn leader(&self) -> Option<u32> {
        let text = fs::read_to_string(self.folder.join("nspawn.pid")).ok()?;
        let pid = text.split_whitespace().next()?;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    fn try_in(&self, args: &[&str]) -> Option<Output> {
        let leader = self.leader()?.to_string();
        let enter = ["-t", &leader, "-m", "-u", "-i", "-n", "-p", "--"];
        let mut command = Command::new("nsenter");
        command.args(enter).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        output_of(command.spawn().ok()?)
    }

    /// Runs a program in the machine, which must succeed, and returns its output.
    fn run(&self, args: &[&str]) -> String {
        let output = self.try_in(args).expect("the machine runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the machine's process id in a pid file of the machine, if that process exists.
    fn pid(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root(path)).ok()?;
        let pid = text.split_whitespace().next()?.to_owned();
        let alive = self.try_in(&["kill", "-0", &pid])?.status.success();
        alive.then_some(pid)
    }

    fn agent(&self) -> Option<String> {
        self.agent_of("slow")
    }

    fn agent_of(&self, application: &str) -> Option<String> {
        self.pid(&format!("var/lib/pintle/agents/unit-{application}-0/agent.pid"))
    }

    /// Returns the lines that the hooks have logged.
    fn hook_log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root("var/log/hooks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn count(&self, line: &str) -> usize {
        self.hook_log().iter().filter(|logged| *logged == line).count()
    }
}

/// Returns everything of Pintle on this host that belongs to this data folder or to none: processes, mounts, devices,
/// rules, files.
fn listing(dir: &Path) -> BTreeSet<String> {
    let (mut all, name) = (BTreeSet::new(), text(dir).to_owned());
    for entry in fs::read_dir("/proc").expect("every host has it").flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&name) || line.contains("/var/lib/pintle") || line.contains("pintle-unit@") {
            all.insert(format!("process {line}"));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("every host has it");
    all.extend(mounts.lines().filter(|line| line.contains(&name)).map(|line| format!("mount {line}")));
    let mut named = |folder: &str, part: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        all.extend(names.filter(|name| name.contains(part)).map(|name| format!("{folder}/{name}")));
    };
    named("/sys/class/net", "");
    for folder in ["/etc/systemd/system", "/run/systemd/system", "/var/lib", "/run"] {
        named(folder, "pintle");
    }
    named(text(&dir.join("machines")), "");
    let tables = Command::new("nft").args(["list", "tables"]).output().expect("nft is there");
    all.extend(String::from_utf8_lossy(&tables.stdout).lines().map(str::to_owned));
    all
}

fn base() -> PathBuf {
    // increase the number when base systems are created differently, because an existing base system is used unchanged
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/machines/base-3")
}

fn up(dir: &Path, more: &[&str]) -> Host {
    // the first test creates the base system
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let host = Host::new(dir);
    host.ok(&[&["up", "--provider", "nspawn", "--base", text(&base())], more].concat());
    host
}

/// Returns a value if the unit of this application has this status message and is idle.
fn reports_word(host: &Host, application: &str, word: &str) -> Option<()> {
    let output = host.pintle(&["status", "--format", "json"]);
    let status: Value = serde_json::from_str(&output.stdout).ok()?;
    let slow = &status["applications"]["slow"]["units"]["slow/0"];
    let unit = if application == "slow" { slow } else { &slow["subordinates"]["beside/0"] };
    let done = unit["workload-status"]["message"] == word && unit["juju-status"]["current"] == "idle";
    done.then_some(())
}

/// Waits until the unit has this status message and is idle.
fn until_word(host: &Host, word: &str) {
    host.until_status("slow/0", "active", word);
}

#[test]
fn a_principal_survives_every_crash_on_a_real_machine_and_leaves_nothing() {
    if !is_root() {
        return skip("machines", "nspawn machines need root");
    }
    let (dir, charms) = (TempDir::with_prefix("pintle-").unwrap(), TempDir::new().unwrap());
    let before = listing(dir.path());
    let host = up(dir.path(), &[]);
    host.ok(&["deploy", text(&charm(charms.path(), "slow", SLOW))]);
    until_word(&host, "one");
    let machine = Machine::of(&host).expect("it runs the unit");

    // the machine has its own address, and its agents are services
    let shown: Value = serde_json::from_str(&host.ok(&["show-machine", "0", "--format", "json"])).unwrap();
    let address = shown["machines"]["0"]["dns-name"].as_str().expect("it has one").to_owned();
    assert!(machine.run(&["ip", "-4", "address", "show", "host0"]).contains(&format!("{address}/")));
    assert_eq!(shown["machines"]["0"]["instance-id"], "nspawn-dev-0");
    for service in ["pintle-machine.service", "pintle-unit@unit-slow-0.service"] {
        assert_eq!(machine.run(&["systemctl", "is-active", service]), "active\n");
    }

    ssh_keys_come_and_go(&host, &machine);
    a_hook_survives_its_agent(&host, &machine);
    units_survive_their_machine_agent(&host, &machine);
    start_runs_once_a_boot(&host, &machine);
    the_host_writes_nothing_into_a_machine_that_has_booted(&host, &machine);
    a_hook_reboots_the_machine(&host, &machine);
    a_container_that_dies_is_a_boot(&host, &machine);
    the_machine_survives_the_supervisor(&host, &machine);
    a_hanging_agent_is_replaced_and_its_hook_continues(&host, &machine);
    a_kept_machine_has_nothing_of_ours_in_it(&host);
    host.ok(&["deploy", text(&charm(charms.path(), "beside", BESIDE))]);
    host.ok(&["integrate", "slow", "beside"]);
    host.until("its subordinate is beside it", |host| reports_word(host, "beside", "one"));
    let minutes = std::env::var("PINTLE_KILL_MINUTES").ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(minutes) = minutes {
        killed_at_random(&host, &machine, Duration::from_secs(60 * minutes));
    }

    let mut remove = vec!["remove-application", "slow", "beside", "--no-prompt"];
    if minutes.is_some() {
        // no process of the machine takes part
        remove.extend(["--force", "--no-wait"]);
        let stop = ["systemctl", "kill", "-s", "STOP", "pintle-unit@unit-slow-0.service"];
        host.until("the unit's agent stands still", |_| {
            machine.try_in(&stop).filter(|output| output.status.success()).map(drop)
        });
    }
    host.ok(&remove);
    host.until("its machine is terminated with all its processes", |host| {
        let empty = fs::read_dir(host.dir.join("machines")).ok()?.next().is_none();
        (empty && host.status()["machines"] == serde_json::json!({})).then_some(())
    });
    host.ok(&["down"]);
    // devices and processes of another test beside this one come and go
    host.until("nothing is left", |_| listing(dir.path()).is_subset(&before).then_some(()));
}

/// The base system has no user `ubuntu`, so that people log in as root.
fn ssh_keys_come_and_go(host: &Host, machine: &Machine) {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ";
    let keys = || fs::read_to_string(machine.root("root/.ssh/authorized_keys")).unwrap_or_default();
    host.ok(&["add-ssh-key", &format!("{KEY} me@host")]);
    host.until("the machine has the key", |_| (keys() == format!("{KEY} Juju:me@host\n")).then_some(()));
    host.ok(&["remove-ssh-key", "me@host"]);
    host.until("the machine has no key", |_| keys().is_empty().then_some(()));
}

/// The next agent records the outcome of the hook, which does not run twice.
fn a_hook_survives_its_agent(host: &Host, machine: &Machine) {
    let started = machine.count("begin config-changed");
    fs::write(machine.root("var/gate"), "").unwrap();
    host.ok(&["config", "slow", "word=two"]);
    host.until("config-changed runs", |_| (machine.count("begin config-changed") > started).then_some(()));
    let old = machine.agent().expect("it runs the hook");
    machine.run(&["kill", "-9", &old]);
    host.until("systemd starts another agent", |_| machine.agent().filter(|new| *new != old));
    fs::remove_file(machine.root("var/gate")).unwrap();
    until_word(host, "two");
    assert_eq!(machine.count("begin config-changed"), started + 1, "{:?}", machine.hook_log());
    assert_eq!(machine.count("end config-changed"), started + 1, "{:?}", machine.hook_log());
}

/// The machine agent is ended with SIGTERM and with SIGKILL.
fn units_survive_their_machine_agent(host: &Host, machine: &Machine) {
    let (agent, hook_log) = (machine.agent().expect("it runs"), machine.hook_log());
    let pid = || machine.pid("var/lib/pintle/machine.pid");
    for how in [
        &["systemctl", "restart", "pintle-machine"][..],
        &["systemctl", "kill", "--kill-whom=main", "-s", "KILL", "pintle-machine"],
    ] {
        let old = pid().expect("it runs");
        machine.run(how);
        host.until("another machine agent", |_| pid().filter(|new| *new != old));
        assert_eq!(machine.agent(), Some(agent.clone()), "after {how:?}");
    }
    assert_eq!(machine.hook_log(), hook_log, "no hook ran");
}

fn start_runs_once_a_boot(host: &Host, machine: &Machine) {
    for boot in 2..=3 {
        let old = machine.leader();
        machine.run(&["systemctl", "reboot"]);
        host.until("the machine boots again", |_| machine.leader().filter(|new| Some(*new) != old));
        host.until("start ran", |_| (machine.count("end start") == boot).then_some(()));
        let word = format!("boot {boot}");
        host.ok(&["config", "slow", &format!("word={word}")]);
        until_word(host, &word);
        assert_eq!(machine.count("begin start"), boot, "{:?}", machine.hook_log());
    }
}

/// The root user of a machine creates links that, resolved by the host, point to a file of the host.
fn the_host_writes_nothing_into_a_machine_that_has_booted(host: &Host, machine: &Machine) {
    // `../../victim` from /etc: next to the machine's root as the host resolves it, in the root for the machine
    let (victim, old) = (machine.folder.join("victim"), machine.leader());
    // systemd-nspawn itself reads machine-id as the host resolves it, and requires an id
    let id = machine.run(&["cat", "/etc/machine-id"]);
    fs::write(&victim, &id).unwrap();
    machine.run(&["cp", "/etc/machine-id", "/victim"]);
    for file in ["machine-id", "hosts"] {
        machine.run(&["ln", "-sf", "../../victim", &format!("/etc/{file}")]);
    }
    // the configured files differ from the files of the machine
    machine.run(&["sh", "-c", "echo '# its own' >> /etc/systemd/network/10-pintle.network"]);
    machine.run(&["systemctl", "reboot"]);
    host.until("the machine boots again", |_| machine.leader().filter(|new| Some(*new) != old));
    host.until("start ran", |_| (machine.count("end start") == 4).then_some(()));
    assert_eq!(fs::read_to_string(&victim).unwrap(), id);
    let network = machine.run(&["cat", "/etc/systemd/network/10-pintle.network"]);
    assert!(network.ends_with("# its own\n"), "{network}");
    assert_eq!(machine.run(&["hostname"]), "dev-0\n");
    fs::remove_file(victim).unwrap();
}

/// Scenarios 60 and 61.
fn a_hook_reboots_the_machine(host: &Host, machine: &Machine) {
    let hook = |name: &str| [format!("begin {name}"), format!("end {name}")];
    let interrupted = ["begin config-changed".to_owned()];
    let wanted = [
        ("after", [&hook("config-changed")[..], &hook("start")].concat()),
        ("now", [&interrupted[..], &hook("config-changed"), &hook("start")].concat()),
    ];
    for (word, hooks) in wanted {
        let (old, before) = (machine.leader(), machine.hook_log().len());
        host.ok(&["config", "slow", &format!("word={word}")]);
        host.until("the machine boots again", |_| machine.leader().filter(|new| Some(*new) != old));
        host.until("start ran", |_| (machine.hook_log().last()? == "end start").then_some(()));
        until_word(host, word);
        assert_eq!(machine.hook_log()[before..], hooks, "{word}");
    }
}

/// The processes of a container survive its systemd-nspawn: they must be killed before the machine starts again.
fn a_container_that_dies_is_a_boot(host: &Host, machine: &Machine) {
    let (old, starts) = (machine.leader().expect("it runs"), machine.count("end start"));
    host.kill(host.pid(&machine.folder.join("nspawn.pid")).expect("it runs"));
    host.until("the machine boots again", |_| machine.leader().filter(|new| *new != old));
    // a zombie process has no command line
    let left = fs::read_to_string(format!("/proc/{old}/cmdline")).unwrap_or_default();
    assert_eq!(left, "", "nobody is left of the boot before");
    host.until("start ran", |_| (machine.count("end start") == starts + 1).then_some(()));
    until_word(host, "now");
}

fn the_machine_survives_the_supervisor(host: &Host, machine: &Machine) {
    let (leader, hook_log) = (machine.leader(), machine.hook_log());
    let supervisor = host.pid(&host.dir.join("supervisor.pid")).expect("it runs");
    host.kill(supervisor);
    // for `up`, a process that is about to exit still exists
    host.until("it has ended", |_| {
        let line = fs::read_to_string(format!("/proc/{supervisor}/cmdline")).unwrap_or_default();
        line.is_empty().then_some(())
    });
    host.ok(&["up"]);
    assert_eq!(machine.leader(), leader);
    host.ok(&["config", "slow", "word=three"]);
    until_word(host, "three");
    assert_eq!(
        machine.hook_log().len(),
        hook_log.len() + 2,
        "only config-changed ran: {:?}",
        machine.hook_log()
    );
}

/// The watchdog expires after two seconds in this test, instead of three minutes.
fn a_hanging_agent_is_replaced_and_its_hook_continues(host: &Host, machine: &Machine) {
    let started = machine.count("begin config-changed");
    let (service, drop_in) =
        ("pintle-unit@unit-slow-0.service", "/run/systemd/system/pintle-unit@.service.d");
    machine.run(&["mkdir", "-p", drop_in]);
    let soon = format!("printf '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n' > {drop_in}/soon.conf");
    machine.run(&["sh", "-c", &soon]);
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "restart", service]);
    fs::write(machine.root("var/gate"), "").unwrap();
    host.ok(&["config", "slow", "word=four"]);
    host.until("config-changed runs", |_| (machine.count("begin config-changed") > started).then_some(()));
    let old = machine.agent().expect("it runs the hook");
    machine.run(&["kill", "-STOP", &old]);
    host.until("systemd starts another agent", |_| machine.agent().filter(|new| *new != old));
    fs::remove_file(machine.root("var/gate")).unwrap();
    until_word(host, "four");
    assert_eq!(machine.count("begin config-changed"), started + 1, "{:?}", machine.hook_log());
    machine.run(&["rm", "-r", drop_in]);
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "restart", service]);
}

/// The instance of another machine is kept: its agent is uninstalled and not started again.
fn a_kept_machine_has_nothing_of_ours_in_it(host: &Host) {
    host.ok(&["add-machine"]);
    let name = "1";
    let shown = || {
        let shown: Value =
            serde_json::from_str(&host.ok(&["machines", "--format", "json"])).expect("it was asked for");
        shown["machines"][name].clone()
    };
    host.until("it is up", |_| (shown()["juju-status"]["current"] == "started").then_some(()));
    host.ok(&["remove-machine", name, "--keep-instance", "--no-prompt"]);
    let kept = host.until("it is handed over", |host| {
        let mut kept = fs::read_dir(host.dir.join("kept")).ok()?.flatten();
        kept.next().map(|entry| Machine { folder: entry.path() })
    });
    assert!(kept.leader().is_some(), "it goes on");
    // the network, and the mounts of the programs and the configuration, belong to the provider
    let given = ["/etc/systemd/network/10-pintle.network", "/etc/pintle", "/usr/local/lib/pintle"];
    let found =
        kept.run(&["find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-name", "*pintle*", "-print"]);
    let left: Vec<&str> = found.lines().filter(|path| !given.contains(path)).collect();
    assert_eq!(left, Vec::<&str>::new(), "nothing is left of ours");
    // the process that uninstalls everything ends last
    host.until("nobody runs", |_| {
        kept.try_in(&["pgrep", "pintle"]).filter(|found| !found.status.success()).map(drop)
    });
    assert!(shown().is_null(), "its record is gone");
}

/// Kills a random process at a random moment, repeatedly. After each kill the unit must still apply a new setting.
fn killed_at_random(host: &Host, machine: &Machine, time: Duration) {
    let (end, mut seed, mut round) = (Instant::now() + time, 88_172_645_463_325_252_u64, 0);
    let mut draw = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    while Instant::now() < end {
        round += 1;
        let word = format!("round {round}");
        for application in ["slow", "beside"] {
            host.ok(&["config", application, &format!("word={word}")]);
        }
        for _ in 0..=draw(3) {
            std::thread::park_timeout(Duration::from_millis(draw(400)));
            let who = draw(10);
            println!("round {round}: {who}");
            match who {
                0..4 => machine
                    .agent_of(["slow", "beside"][draw(2) as usize])
                    .and_then(|agent| machine.try_in(&["kill", "-9", &agent]))
                    .map(drop),
                4..7 => {
                    let agent = machine.pid("var/lib/pintle/machine.pid");
                    agent.and_then(|agent| machine.try_in(&["kill", "-9", &agent])).map(drop)
                }
                7 => machine.try_in(&["pkill", "-9", "-f", "pintle-hook --(shim|forked)"]).map(drop),
                8 if draw(2) == 0 => host.pid(&machine.folder.join("nspawn.pid")).map(|pid| host.kill(pid)),
                8 => host.pid(&host.dir.join("controller.pid")).map(|pid| host.kill(pid)),
                _ => machine.try_in(&["systemctl", "reboot"]).map(drop),
            };
        }
        host.until(format_args!("{word} is reported"), |host| {
            reports_word(host, "slow", &word).and_then(|()| reports_word(host, "beside", &word))
        });
    }
}
