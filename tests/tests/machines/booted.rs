//! Tests containers on a host that runs systemd: `machinectl` shows them, and a container that it ends starts again.
//!
//! That host is a container itself, with a whole systemd in it, because tests also run where there is none. Its system is
//! the base system with the packages of such a host; it is created once, beside the base system, and never written to.

use crate::{base, output_of, up};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::host::{is_root, programs, sample, skip};
use tests::scene::text;

/// Where the host has the data folder of its controller, the programs, the base system and the charms.
const DATA: &str = "/srv/data";
const PROGRAMS: &str = "/srv/programs";
const BASE: &str = "/srv/base";
const CHARMS: &str = "/srv/charms";
/// More than any step takes on a busy computer.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A host that has booted. It ends, with everything in it, when this is dropped.
struct BootedHost {
    nspawn: Child,
    data: TempDir,
}

/// The root of the host's system.
fn root() -> PathBuf {
    let root = base()
        .with_file_name(format!("host-of-{}", base().file_name().expect("it has a name").to_string_lossy()));
    if root.is_dir() {
        return root;
    }
    // an interrupted creation leaves a folder of another name
    let new = root.with_extension("new");
    let install =
        "apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd-container nftables";
    let script = format!(
        "rm -rf \"$2\" && cp -a --reflink=auto \"$1\" \"$2\" && cp -L /etc/resolv.conf \"$2/etc/resolv.conf\" && \
         DEBIAN_FRONTEND=noninteractive chroot \"$2\" sh -c '{install}' && mv \"$2\" \"$3\""
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).args([&base(), &new, &root]);
    let created = command.output().expect("sh is there");
    assert!(created.status.success(), "{created:?}");
    root
}

impl BootedHost {
    fn boot() -> BootedHost {
        let data = TempDir::with_prefix("pintle-").expect("a temporary folder can be created");
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args(["--quiet", "--directory", text(&root()), "--volatile=overlay", "--boot"]);
        // a name of its own, and neither a scope nor a journal of the host that runs the tests
        nspawn.arg(format!("--machine=pintle-test-{}", std::process::id()));
        nspawn.args([
            "--register=no",
            "--keep-unit",
            "--link-journal=no",
            "--private-network",
            "--capability=all",
        ]);
        let samples = sample("hello").join("..");
        for (from, to) in [(programs(), PROGRAMS), (base(), BASE), (samples, CHARMS)] {
            let from = from.canonicalize().expect("it exists");
            nspawn.arg(format!("--bind-ro={}:{to}", from.display()));
        }
        nspawn.arg(format!("--bind={}:{DATA}", data.path().display()));
        let nspawn = nspawn.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let host = BootedHost { nspawn: nspawn.expect("tests/prerequisites.sh installs it"), data };
        host.until("it has booted", || {
            let state = host.output(&["systemctl", "is-system-running"])?;
            ["running\n", "degraded\n"].contains(&&*String::from_utf8_lossy(&state.stdout)).then_some(())
        });
        host
    }

    /// The first process of the host: systemd-nspawn's child is its supervisor, or process 1 itself.
    fn leader(&self) -> Option<u32> {
        let child = |pid: u32| -> Option<u32> {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
            children.split_whitespace().next()?.parse().ok()
        };
        let own_namespace = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("NSpid:") && line.split_whitespace().count() > 2)
        };
        let first = child(self.nspawn.id())?;
        [Some(first), child(first)].into_iter().flatten().find(own_namespace)
    }

    fn output(&self, words: &[&str]) -> Option<Output> {
        let mut command = Command::new("nsenter");
        command.args([
            "-t",
            &self.leader()?.to_string(),
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "-C",
            "--",
            "env",
            "-i",
        ]);
        let path = format!("PATH={PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.args([&path, "HOME=/root", "LANG=C.UTF-8"]).arg(format!("PINTLE_DATA={DATA}")).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        output_of(command.spawn().ok()?)
    }

    /// Runs a program of the host, which must succeed, and returns what it prints.
    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words).expect("the host runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            let why = || self.output(&["pintle", "why"]);
            assert!(started.elapsed() < WAIT_MAX, "{what}: {:?}", why());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The names of the containers that `machinectl` shows, with their addresses.
    fn containers(&self) -> Vec<String> {
        let listed: Value = serde_json::from_str(&self.run(&["machinectl", "list", "--output=json"]))
            .expect("machinectl prints JSON");
        let listed = listed.as_array().expect("a list").iter();
        listed.map(|one| one["machine"].as_str().expect("a name").to_owned()).collect()
    }
}

impl Drop for BootedHost {
    fn drop(&mut self) {
        // its processes end with its first one
        self.nspawn.kill().and_then(|()| self.nspawn.wait()).expect("it is our child");
    }
}

#[test]
fn machinectl_shows_the_machines_of_a_host_that_runs_systemd() {
    if !is_root() {
        return skip("machines", "nspawn machines need root");
    }
    // the first start builds the base system
    let dir = TempDir::with_prefix("pintle-").expect("a temporary folder can be created");
    up(dir.path(), &[]).ok(&["down"]);

    let host = BootedHost::boot();
    host.run(&["pintle", "up", "--provider", "nspawn", "--base", BASE]);
    host.run(&["pintle", "deploy", &format!("{CHARMS}/hello")]);
    host.run(&["pintle", "wait", "--settled"]);
    let containers = host.containers();
    let [container] = &containers[..] else { panic!("one is shown: {containers:?}") };
    assert_eq!(host.run(&["machinectl", "show", container, "-p", "Class", "--value"]), "container\n");
    let scope = host.run(&["machinectl", "show", container, "-p", "Unit", "--value"]);
    assert!(scope.trim().ends_with(".scope"), "it has a scope of its own: {scope}");

    // no unit file in it has a key that its systemd does not know, or a mode that it warns about
    let journal =
        host.run(&["pintle", "ssh", "hello/0", "journalctl --boot --no-pager --identifier=systemd"]);
    let complaints = journal.lines().filter(|line| line.contains("/systemd/system/pintle-"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);

    // whoever ends it there has rebooted the machine
    let boots = || host.run(&["pintle", "debug-log", "--limit", "0"]).matches("ran \"start\" hook").count();
    assert_eq!(boots(), 1);
    host.run(&["machinectl", "terminate", container]);
    host.until("it has booted again", || (boots() == 2).then_some(()));
    assert_eq!(host.containers(), [container.as_str()]);
    host.run(&["pintle", "destroy-model", "--no-prompt", "dev"]);
    host.until("it is gone", || host.containers().is_empty().then_some(()));
    host.run(&["pintle", "down"]);
    assert!(Path::new(host.data.path()).join("identity.yaml").exists(), "its data are kept");
}
