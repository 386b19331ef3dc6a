//! Drives a real Pintle on this host through its user interface: the `pintle` command, its output and the files on
//! disk.
//!
//! It must never call product code directly; it only parses the causes that commands print into their type. Shared by
//! the demo and the end-to-end tests.

use agent::hook_process::run_files::read_run_file;
use serde_json::Value;
use state::terms::cause::Cause;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
pub use test_support::skipped::skip;

/// The longest wait for an expected state. A busy machine with two cores needs a tenth of it.
const DEADLINE: Duration = Duration::from_secs(120);
/// The interval of polling for a state that has no event.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Part of the error of a command that receives no reply from the controller.
const NO_ANSWER: &str = "does not answer";

/// Whether a repeated command fails because its first attempt took effect and its reply was lost.
fn was_done_before(args: &[&str], stderr: &str) -> bool {
    match args.first().is_some_and(|verb| verb.starts_with("remove-") || verb.starts_with("destroy-")) {
        true => stderr.contains(" not found"),
        false => stderr.contains(" already exists"),
    }
}

/// A data folder, and the programs that run on it. Dropping it runs `pintle down`.
pub struct Host {
    /// The data folder.
    pub dir: PathBuf,
    /// The folder of the built programs.
    pub programs: PathBuf,
    /// Environment variables for the programs, in addition to those of this process.
    pub environment: Vec<(String, OsString)>,
    /// Whether the test kills the controller while commands run: a command without a reply is repeated.
    pub controller_crashes: bool,
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Host {
    /// Describes a host with the data folder `dir`. Starts nothing.
    pub fn new(dir: &Path) -> Host {
        Host {
            dir: dir.to_path_buf(),
            programs: programs(),
            environment: Vec::new(),
            controller_crashes: false,
        }
    }

    /// Runs `pintle up` with the data folder `dir`.
    pub fn up(dir: &Path) -> Host {
        let host = Host::new(dir);
        host.ok(&["up"]);
        host
    }

    /// Runs `pintle` with this data folder.
    pub fn pintle(&self, args: &[&str]) -> CommandOutput {
        let mut output = self.pintle_once(args);
        let end = Instant::now() + DEADLINE;
        while self.controller_crashes
            && output.code != 0
            && output.stderr.contains(NO_ANSWER)
            && Instant::now() < end
        {
            std::thread::park_timeout(POLL_INTERVAL);
            output = self.pintle_once(args);
            if was_done_before(args, &output.stderr) {
                output.code = 0;
            }
        }
        output
    }

    fn pintle_once(&self, args: &[&str]) -> CommandOutput {
        let mut command = Command::new(self.programs.join("pintle"));
        command.arg("--data").arg(&self.dir).args(args).envs(self.environment.iter().cloned());
        command_output(command.output().expect("pintle was built: cargo build --workspace"))
    }

    /// Runs `pintle`, which must succeed, and returns its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.pintle(args);
        assert!(output.code == 0, "pintle {args:?}: {output:?}\n{}", self.diagnostics());
        output.stdout
    }

    /// Runs `pintle`, which must fail, and returns its standard error.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.pintle(args);
        assert!(output.code != 0, "pintle {args:?} was expected to fail: {output:?}");
        output.stderr
    }

    /// Returns the output of `pintle status --format json`.
    pub fn status(&self) -> Value {
        let text = self.ok(&["status", "--format", "json"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("status is not JSON: {error}: {text}"))
    }

    /// Returns the causes of `pintle why ENTITY --format json`.
    pub fn causes(&self, entity: &str) -> Vec<Cause> {
        let text = self.ok(&["why", entity, "--format", "json"]);
        let mut why: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("why is not JSON: {error}: {text}"));
        serde_json::from_value(why["causes"].take()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Polls until `look` returns a value, and returns it. Panics with diagnostics after two minutes.
    pub fn until<T>(&self, what: impl Display, look: impl Fn(&Host) -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < end, "not seen within {DEADLINE:?}: {what}\n{}", self.diagnostics());
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Waits until a unit has this workload status and message, and its agent is idle.
    pub fn until_status(&self, unit: &str, status: &str, message: &str) {
        self.until(format_args!("{unit} is {status} {message:?}"), |host| {
            let shown = host.unit(unit)?;
            let workload = &shown["workload-status"];
            let as_wanted = workload["current"] == status
                && workload["message"].as_str().unwrap_or_default() == message
                && shown["juju-status"]["current"] == "idle";
            as_wanted.then_some(())
        });
    }

    /// Returns a unit as `status` shows it.
    pub fn unit(&self, unit: &str) -> Option<Value> {
        let application = unit.split('/').next()?;
        let found = self.status()["applications"][application]["units"][unit].clone();
        (!found.is_null()).then_some(found)
    }

    /// Returns all lines of `debug-log`.
    pub fn log(&self) -> Vec<String> {
        let text = self.ok(&["debug-log", "--limit", "0"]);
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a log line that contains `text`, and returns it.
    pub fn until_logged(&self, text: &str) -> String {
        self.until(format_args!("a log line with {text:?}"), |host| {
            host.log().into_iter().find(|line| line.contains(text))
        })
    }

    /// Returns the folder of a deployed unit, on any machine.
    pub fn unit_folder(&self, unit: &str) -> Option<PathBuf> {
        let name = format!("unit-{}", unit.replace('/', "-"));
        let machines = std::fs::read_dir(self.dir.join("machines")).ok()?.flatten();
        machines.map(|machine| machine.path().join("agents").join(&name)).find(|folder| folder.is_dir())
    }

    /// Returns the process id of a unit's agent, if it runs.
    pub fn agent_pid(&self, unit: &str) -> Option<i32> {
        self.pid(&self.unit_folder(unit)?.join("agent.pid"))
    }

    /// Returns the process id in a pid file, if that process exists.
    pub fn pid(&self, file: &Path) -> Option<i32> {
        let text = std::fs::read_to_string(file).ok()?;
        let pid = text.split_whitespace().next()?.parse().ok()?;
        Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
    }

    /// Sends SIGKILL.
    pub fn kill(&self, pid: i32) {
        self.signal("KILL", pid);
    }

    /// Sends a signal, named as for `kill -s`.
    pub fn signal(&self, signal: &str, pid: i32) {
        let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {signal} {pid}");
    }

    /// Returns the folder of a run of a unit, while it is kept.
    pub fn run_folder(&self, unit: &str, run: u64) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.unit_folder(unit)?.join("hooks")).ok()?.flatten();
        let is_it = |path: &PathBuf| {
            path.file_name().and_then(|name| run_number(&name.to_string_lossy())) == Some(run)
        };
        entries.map(|entry| entry.path()).find(is_it)
    }

    /// Returns the hook runs of a unit in order, number and operation, as stored in their folders.
    pub fn runs(&self, unit: &str) -> Vec<(u64, String)> {
        let Some(folder) = self.unit_folder(unit) else { return Vec::new() };
        let entries = std::fs::read_dir(folder.join("hooks")).into_iter().flatten().flatten();
        let mut runs: Vec<(u64, String)> = entries
            .filter_map(|entry| {
                let number = run_number(&entry.file_name().to_string_lossy())?;
                Some((number, read_run_file(&entry.path())?.operation().to_string()))
            })
            .collect();
        runs.sort();
        runs
    }

    /// Returns the command lines of all processes that name this data folder.
    pub fn processes(&self) -> Vec<String> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let dir = self.dir.to_string_lossy().into_owned();
        let line = |entry: std::fs::DirEntry| {
            let bytes = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
            let own = entry.file_name().to_string_lossy().parse::<u32>().ok()? == std::process::id();
            (line.contains(&dir) && !own).then_some(line)
        };
        entries.filter_map(line).collect()
    }

    /// Returns the status and the newest log lines, for the message of a failed check.
    pub fn diagnostics(&self) -> String {
        let status = self.pintle(&["status"]);
        let log = self.pintle(&["debug-log", "--limit", "40"]);
        let own = std::fs::read_to_string(self.dir.join("log/supervisor.log")).unwrap_or_default();
        let from = own.lines().count().saturating_sub(40);
        let own: String = own.lines().skip(from).map(|line| format!("{line}\n")).collect();
        let (status, log) = ([status.stdout, status.stderr].concat(), [log.stdout, log.stderr].concat());
        let processes = Command::new("ps").args(["-eo", "pid,ppid,sid,stat,etimes,wchan:20,args"]).output();
        let processes = processes.map_or_else(|error| error.to_string(), |ps| command_output(ps).stdout);
        format!("--- status\n{status}\n--- log\n{log}\n--- supervisor log\n{own}\n--- processes\n{processes}")
    }
}

impl Drop for Host {
    /// Stops the programs, so that a failed test leaves no process.
    fn drop(&mut self) {
        self.pintle(&["down"]);
    }
}

fn command_output(output: Output) -> CommandOutput {
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The number in the name of the folder of a run: `000041-config-changed`.
fn run_number(folder: &str) -> Option<u64> {
    folder.split('-').next()?.parse().ok()
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process can read its own status");
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// Returns the folder of the programs of this build: the demo's own folder, or the parent of the tests' folder.
pub fn programs() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let beside = this.parent().expect("programs lie in folders").to_path_buf();
    if beside.join("pintle").is_file() {
        beside
    } else {
        beside.parent().expect("deps has a parent").to_path_buf()
    }
}

/// Returns the folder of a sample charm.
pub fn sample(name: &str) -> PathBuf {
    let samples = std::env::var_os("PINTLE_SAMPLES").map(PathBuf::from);
    let samples = samples.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../charms/samples"));
    samples.join(name).canonicalize().expect("sample charms are in the repository")
}

/// Whether the process runs; a zombie process does not.
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
