//! `pintle dev` with real programs: a charm is deployed on each save, fake applications act for what it is related to, and
//! the clock of its model is advanced.

use agent::hook_process::run_files::{self, read_run_file};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tests::host::Host;
use tests::scene::text;

/// The longest time to the first hook, and from a save to the hook that shows it. Both take less than a second on a host
/// with a disk that syncs at once; this is for a busy one.
const VISIBLE_WITHIN: Duration = Duration::from_secs(30);

/// A `pintle dev` that runs, and what it has printed.
struct Dev {
    process: Child,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Dev {
    fn start(host: &Host, args: &[&str]) -> Dev {
        let mut process = Command::new(host.programs.join("pintle"))
            .arg("--data")
            .arg(&host.dir)
            .arg("dev")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("pintle was built");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (lines, to) = (BufReader::new(process.stdout.take().expect("a pipe")), Arc::clone(&printed));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                to.lock().expect("no holder panics").push(line);
            }
        });
        Dev { process, printed }
    }

    fn has_printed(&self, words: &str) -> bool {
        self.printed.lock().expect("no holder panics").iter().any(|line| line.contains(words))
    }

    fn until_printed(&self, host: &Host, words: &str) {
        host.until(format_args!("a line with {words:?}"), |_| self.has_printed(words).then_some(()));
    }

    /// Sends the signal of Ctrl-C; the command must succeed.
    fn end(mut self, host: &Host) {
        host.signal("INT", i32::try_from(self.process.id()).expect("a pid"));
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // fails only if it has ended
        self.process.kill().ok();
    }
}

/// A charm whose hooks are scripts, beside the data folder.
struct Shell {
    folder: PathBuf,
}

impl Shell {
    fn new(dir: &Path, name: &str) -> Shell {
        let shell = Shell { folder: dir.join(name) };
        fs::create_dir_all(shell.folder.join("hooks")).expect("it is a new folder");
        shell.save("metadata.yaml", &metadata(name));
        shell
    }

    fn save(&self, file: &str, content: &str) {
        let path = self.folder.join(file);
        fs::write(&path, content).expect("it is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn hook(&self, name: &str, script: &str) {
        self.save(&format!("hooks/{name}"), &format!("#!/bin/sh -e\n{script}\n"));
    }
}

fn metadata(name: &str) -> String {
    format!("name: {name}\nsummary: s\ndescription: d\nrequires:\n  db: {{interface: sql}}\n")
}

fn host(dir: &TempDir) -> Host {
    Host::new(&dir.path().canonicalize().expect("the folder was just created").join("data"))
}

/// When the last run of this hook of the unit started.
fn started(host: &Host, unit: &str, hook: &str) -> Option<SystemTime> {
    let folder = host.unit_folder(unit)?.join("hooks");
    let runs = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_of_hook = |run: &PathBuf| {
        read_run_file(run).is_some_and(|file| file.operation().to_string() == format!("hook {hook}"))
    };
    runs.filter(is_of_hook).filter_map(|run| run_files::started(&run)).max()
}

fn workload(host: &Host, model: &str, unit: &str) -> Option<(String, String)> {
    let status = host.pintle(&["status", "-m", model, "--format", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
    let application = unit.split('/').next()?;
    let shown = &status["applications"][application]["units"][unit]["workload-status"];
    Some((shown["current"].as_str()?.to_owned(), shown["message"].as_str().unwrap_or_default().to_owned()))
}

fn until_workload(host: &Host, model: &str, unit: &str, status: &str, message: &str) {
    host.until(format_args!("{unit} is {status} {message:?}"), |host| {
        (workload(host, model, unit)? == (status.to_owned(), message.to_owned())).then_some(())
    });
}

fn until_error(host: &Host, model: &str, unit: &str) {
    host.until(format_args!("{unit} is in error"), |host| {
        (workload(host, model, unit)?.0 == "error").then_some(())
    });
}

/// A time that did not come, so that the message of the bound names it.
fn within(what: &str, from: SystemTime, to: SystemTime) {
    let took = to.duration_since(from).unwrap_or_default();
    println!("{what}: {took:?}");
    assert!(took < VISIBLE_WITHIN, "{what}: {took:?}");
}

#[test]
fn a_save_is_deployed_at_once_also_to_a_unit_in_error() {
    let dir = TempDir::with_prefix("pintle-dev-").expect("a temporary folder can be created");
    let (host, charm) = (host(&dir), Shell::new(dir.path(), "shell"));
    charm.hook("install", "echo broken-on-purpose; status-set maintenance one; false");
    let command = SystemTime::now();
    let dev = Dev::start(&host, &[text(&charm.folder)]);
    until_error(&host, "dev-shell", "shell/0");
    let first = started(&host, "shell/0", "install").expect("it has run");
    within("from the command, with the start of the controller, to the first hook", command, first);
    dev.until_printed(&host, "status-set maintenance one");
    dev.until_printed(&host, "| broken-on-purpose");

    // a charm that cannot be used changes nothing, and the next save is deployed
    charm.save("metadata.yaml", "name: [");
    charm.hook("install", "status-set active two");
    let saved = SystemTime::now();
    charm.save("metadata.yaml", &metadata("shell"));
    until_workload(&host, "dev-shell", "shell/0", "active", "two");
    let again = started(&host, "shell/0", "install").expect("it has run again");
    within("from a save to the failed hook of a unit in error", saved, again);
    dev.until_printed(&host, "status-set active two");

    let saved = SystemTime::now();
    charm.hook("upgrade-charm", "status-set active four");
    until_workload(&host, "dev-shell", "shell/0", "active", "four");
    within(
        "from a save to upgrade-charm",
        saved,
        started(&host, "shell/0", "upgrade-charm").expect("it ran"),
    );

    // a secret that a hook reads is shown neither as the answer of its call, nor in another call, nor in its output
    charm.hook(
        "upgrade-charm",
        "id=$(secret-add --owner unit token=canary-7d31)\necho before $(secret-get \"$id\" token) after\nstate-set copy=$(secret-get \"$id\" token)\nstatus-set active five",
    );
    until_workload(&host, "dev-shell", "shell/0", "active", "five");
    dev.until_printed(&host, " after");
    dev.until_printed(&host, "secret-get");
    dev.until_printed(&host, "state-set");
    assert!(!dev.has_printed("canary-7d31"));

    dev.end(&host);
    assert_eq!(workload(&host, "dev-shell", "shell/0").expect("it stays").1, "five");
}

#[test]
fn fake_applications_act_for_others_and_the_clock_is_advanced() {
    let dir = TempDir::with_prefix("pintle-dev-").expect("a temporary folder can be created");
    let (host, charm) = (host(&dir), Shell::new(dir.path(), "shell"));
    let fakes = dir.path().join("fakes.yaml");
    let save = |units: &str| {
        let relation = format!("relations:\n- endpoint: db\n  remote: postgres\n  units: {units}\n");
        fs::write(&fakes, if units.is_empty() { "relations: []\n" } else { &relation }).expect("writable");
    };
    charm.hook("db-relation-joined", "status-set waiting \"joined $JUJU_REMOTE_UNIT\"");
    charm.hook(
        "db-relation-changed",
        "test -z \"$JUJU_REMOTE_UNIT\" || status-set active \"$(relation-get host)\"",
    );
    charm.hook("db-relation-departed", "status-set waiting \"departed $JUJU_REMOTE_UNIT\"");
    charm.hook("db-relation-broken", "status-set blocked broken");
    charm.hook("update-status", "status-set active updated");
    charm.hook("config-changed", "true");
    save("{0: {host: 10.0.0.1}}");
    let dev = Dev::start(&host, &[text(&charm.folder), "--fakes", text(&fakes)]);
    let until = |status: &str, message: &str| until_workload(&host, "dev-shell", "shell/0", status, message);
    until("active", "10.0.0.1");
    save("{0: {host: 10.0.0.2}}");
    until("active", "10.0.0.2");
    save("{0: {host: 10.0.0.2}, 1: {host: 10.0.0.3}}");
    until("active", "10.0.0.3");
    assert_eq!(workload(&host, "dev-shell", "postgres/1"), Some(("active".to_owned(), String::new())));
    let waits = host.ok(&["why", "-m", "dev-shell", "postgres/1", "--format", "json"]);
    let waits: serde_json::Value = serde_json::from_str(&waits).expect("JSON");
    assert_eq!(waits["causes"], serde_json::json!([]), "a fake unit waits for nothing");
    save("{1: {host: 10.0.0.3}}");
    until("waiting", "departed postgres/0");

    // update-status is due after at most six minutes
    host.ok(&["dev", "--advance", "6m"]);
    until("active", "updated");

    save("");
    until("blocked", "broken");
    dev.end(&host);
    host.ok(&["destroy-model", "dev-shell", "--no-prompt"]);
}

#[test]
fn a_model_with_fake_units_is_destroyed_without_agents_for_them() {
    let dir = TempDir::with_prefix("pintle-dev-").expect("a temporary folder can be created");
    let (host, charm) = (host(&dir), Shell::new(dir.path(), "shell"));
    let fakes = dir.path().join("fakes.yaml");
    fs::write(&fakes, "relations: [{endpoint: db, remote: postgres, units: {0: {}, 1: {}}}]\n")
        .expect("writable");
    charm.hook("db-relation-joined", "status-set active joined");
    let dev = Dev::start(&host, &[text(&charm.folder), "--fakes", text(&fakes)]);
    until_workload(&host, "dev-shell", "shell/0", "active", "joined");
    dev.end(&host);
    let before = Instant::now();
    host.ok(&["destroy-model", "dev-shell", "--no-prompt"]);
    println!("destroyed after {:?}", before.elapsed());
    // a retry that is due in the far future runs when the clock is advanced
    let refused = host.pintle(&["dev", "--advance", "5m", "-m", "dev"]);
    assert_ne!(refused.code, 0, "the first model is not for development: {refused:?}");
}

#[test]
fn a_failed_hook_is_retried_when_the_clock_is_advanced() {
    let dir = TempDir::with_prefix("pintle-dev-").expect("a temporary folder can be created");
    let (host, charm) = (host(&dir), Shell::new(dir.path(), "shell"));
    let (marker, count) = (dir.path().join("works"), dir.path().join("count"));
    charm.hook(
        "install",
        &format!("echo x >>{}; test -e {}; status-set active works", text(&count), text(&marker)),
    );
    let dev = Dev::start(&host, &[text(&charm.folder)]);
    // the third retry is 20 s after the second one
    host.until("three failures", |_| (fs::read_to_string(&count).ok()?.lines().count() == 3).then_some(()));
    until_error(&host, "dev-shell", "shell/0");
    fs::write(&marker, "").expect("writable");
    let advanced = Instant::now();
    host.ok(&["dev", "--advance", "5m"]);
    until_workload(&host, "dev-shell", "shell/0", "active", "works");
    println!("the retry was seen after {:?}", advanced.elapsed());
    assert_eq!(fs::read_to_string(&count).expect("readable").lines().count(), 4);
    assert!(advanced.elapsed() < Duration::from_secs(15), "before it was due by the clock of the host");
    dev.end(&host);
}
