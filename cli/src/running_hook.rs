//! The process of a hook that runs, and its run folder, for `why`.
//!
//! Only the machine of the unit has them. Local machines and containers are queried; for a manually provisioned machine,
//! which requires a login, only the folder is named.

use crate::commands::recorded_runs::machine_folder;
use crate::machine_access::MachineAccess;
use api::machine_folder::{AGENTS_DIR, RUNS_DIR};
use host::shell::quote;
use serde_json::{Value, json};
use state::terms::names::UnitName;
use state::unit::debug_session::DEBUGGED_RUN_FILE;
use std::fmt::{self, Display, Formatter};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the machine of a hook is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Prints the folder of the run, then whether it happens in a debug session, and then its pid file, which begins with the
/// pid. `$1` is the number of the run, with which the name of the folder begins; `$2` is the file of a debug session.
const SCRIPT: &str = "set -- \"$1\"-* \"$2\"; [ -d \"$1\" ] && echo \"$PWD/$1\" && \
                      { [ -e \"$1/$2\" ] && echo debugged || echo runs; } && cat \"$1/hook.pid\"";

/// A hook that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningHook {
    /// Its run folder, on its machine.
    pub folder: String,
    /// The id of its process on its machine, if it is known.
    pub pid: Option<i32>,
    /// Whether it runs in a debug session.
    pub is_debugged: bool,
}

impl RunningHook {
    /// The hook as a document.
    pub fn document(&self) -> Value {
        json!({ "folder": self.folder, "pid": self.pid })
    }
}

impl Display for RunningHook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process: {pid}, run folder: {}", self.folder),
            None => {
                write!(f, "run folder: {} (hook.pid there has the process, once it has started)", self.folder)
            }
        }
    }
}

/// The hook of this run of a unit.
pub fn find(access: &MachineAccess, unit: &UnitName, run: u64) -> RunningHook {
    let runs = machine_folder(access).join(AGENTS_DIR).join(unit.tag()).join(RUNS_DIR);
    let unknown =
        RunningHook { folder: format!("{}/{run:06}-*", runs.display()), pid: None, is_debugged: false };
    if matches!(access, MachineAccess::Remote(..)) {
        return unknown;
    }
    let words = ["sh", "-c", &format!("cd {} && {{ {SCRIPT}; }}", quote(&runs.display().to_string())), "sh"];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.extend([format!("{run:06}"), DEBUGGED_RUN_FILE.to_owned()]);
    let mut command = access.command(&words);
    let Some(printed) = printed_in_time(command.stdin(Stdio::null()).stderr(Stdio::null())) else {
        return unknown;
    };
    let mut lines = printed.lines();
    let (Some(folder), Some(kind)) = (lines.next(), lines.next()) else { return unknown };
    let pid = lines.next().and_then(|pid| pid.split_whitespace().next()?.parse().ok());
    RunningHook { folder: folder.to_owned(), pid, is_debugged: kind == "debugged" }
}

/// What a command prints, some hundred bytes; none if it does not end in time: the machine of a hook that hangs may hang
/// as well.
fn printed_in_time(command: &mut Command) -> Option<String> {
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let started = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if started.elapsed() > ANSWER_TIMEOUT {
            // it may be in a system call that never ends, so that it is not waited for
            child.kill().ok();
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut printed = String::new();
    child.stdout.take()?.read_to_string(&mut printed).ok()?;
    Some(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_and_the_folder_of_a_local_hook_are_found_by_the_number_of_its_run() {
        let machine = tempfile::tempdir().expect("a folder");
        let unit = UnitName::new("web", 0);
        let access = MachineAccess::Folder(machine.path().to_owned());
        let runs = machine.path().join("agents/unit-web-0/hooks");
        assert_eq!(find(&access, &unit, 7).pid, None);
        let run = runs.join("000007-config-changed");
        std::fs::create_dir_all(&run).expect("made");
        let unstarted = RunningHook { folder: run.display().to_string(), pid: None, is_debugged: false };
        assert_eq!(find(&access, &unit, 7), unstarted);
        std::fs::write(run.join("hook.pid"), "123 456\n").expect("written");
        assert_eq!(find(&access, &unit, 7), RunningHook { pid: Some(123), ..unstarted.clone() });
        std::fs::write(run.join(DEBUGGED_RUN_FILE), "").expect("written");
        let debugged = RunningHook { pid: Some(123), is_debugged: true, ..unstarted };
        assert_eq!(find(&access, &unit, 7), debugged);
        let remote = MachineAccess::Remote("10.0.0.1".to_owned(), Vec::new());
        let named = "/var/lib/pintle/agents/unit-web-0/hooks/000007-*".to_owned();
        assert_eq!(find(&remote, &unit, 7), RunningHook { folder: named, pid: None, is_debugged: false });
    }
}
