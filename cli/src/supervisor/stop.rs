//! Stops all processes of a data folder, parents before their children, so that no stopped process is started again.
//!
//! Processes are found by the locks that they hold in the folder and by the pid files that they or their parents wrote,
//! never by name: a backup that was copied over the folder has replaced the pid files. Agents and hooks run what charms
//! contain, so that a pid file below the folder of a machine is only a hint: its process is stopped if it is an agent or a shim
//! that was started for that folder. A hook has no lock of its own. Used by `down`, `supervise`, a failed `up`, and the `local` provider.

use crate::data_dir::DataDir;
use crate::supervisor::lock;
use crate::supervisor::process;
use api::machine_folder::{
    AGENT_LOCK, AGENT_PID, AGENTS_DIR, MACHINE_LOCK, MACHINE_PID, MACHINES_DIR, RUNS_DIR, SHIM_PID,
};
use host::lock::HeldLock;
use host::process::Process;
use host::process_tree;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Grace period of an agent. It stores its state after every step, so it only completes the current step.
pub const AGENT_GRACE: Duration = Duration::from_secs(5);
/// Grace period of a hook. It may exit by itself, but its changes are discarded in either case.
const HOOK_GRACE: Duration = Duration::from_secs(2);
/// Grace period of the controller, which completes the requests that it has started.
const CONTROLLER_GRACE: Duration = Duration::from_secs(5);
/// Grace period of etcd, which stores a last snapshot.
const ETCD_GRACE: Duration = Duration::from_secs(5);
/// Grace period of the supervisor, which runs the five stages below. Each takes at most its grace period and 5 s for
/// the kernel: 5 + 5 + 2 + 5 + 5 + 5 * 5 = 47 s.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(50);

/// The result of stopping processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StopResult {
    /// Number of processes that were stopped.
    pub ended: usize,
    /// Processes that still run.
    pub left: Vec<Process>,
}

impl StopResult {
    async fn stop(&mut self, processes: BTreeSet<Process>, grace: Duration) {
        let processes: Vec<Process> = processes.into_iter().collect();
        let left = process::stop(&processes, grace).await;
        self.ended += processes.len() - left.len();
        self.left.extend(left);
    }
}

/// Stops the supervisor and all processes that it started, also if the supervisor was killed before.
pub async fn stop_all(dir: &DataDir) -> StopResult {
    let supervisor = lock::holder(dir).or_else(|| Process::read_alive(&dir.supervisor_lock()));
    // The children are listed before the supervisor stops: some may not have written their pid files yet.
    let started: Vec<Process> = process_tree::children(&supervisor.into_iter().collect());
    let mut stopped = StopResult::default();
    stopped.stop(supervisor.into_iter().collect(), SUPERVISOR_GRACE).await;
    let children_result = stop_children(dir, started, Servers::running(dir)).await;
    StopResult {
        ended: stopped.ended + children_result.ended,
        left: [stopped.left, children_result.left].concat(),
    }
}

/// Stops the supervisor, the controller and the machine agents of a start that has failed. Units that a former
/// supervisor left keep running.
pub async fn stop_failed_start(dir: &DataDir) {
    let supervisor: Vec<Process> = lock::holder(dir).into_iter().collect();
    process::stop_by(Signal::SIGQUIT, &supervisor, SUPERVISOR_GRACE).await;
    stop_orphans(dir, vec![]).await;
}

/// What agents need until they have ended: the controllers, and what the controllers need, an etcd of the data folder.
#[derive(Debug, Default)]
pub struct Servers {
    /// The controllers.
    pub controllers: Vec<Process>,
    /// The etcd.
    pub etcd: Option<Process>,
}

impl Servers {
    /// Those of a data folder that run.
    pub fn running(dir: &DataDir) -> Servers {
        Servers { controllers: lock::controllers(dir), etcd: lock::etcd(dir) }
    }

    fn has(&self, process: Process) -> bool {
        self.controllers.contains(&process) || self.etcd == Some(process)
    }

    /// Stops the controllers, then the etcd.
    async fn stop(self, stopped: &mut StopResult) {
        stopped.stop(self.controllers.into_iter().collect(), CONTROLLER_GRACE).await;
        stopped.stop(self.etcd.into_iter().collect(), ETCD_GRACE).await;
    }
}

/// Stops machine agents, unit agents, hooks and then the servers. `started`: children of the supervisor, which must no
/// longer start processes.
pub async fn stop_children(dir: &DataDir, started: Vec<Process>, servers: Servers) -> StopResult {
    let mut stopped = StopResult::default();
    let held = HeldLocks::below(dir.path());
    let machines = machine_folders(dir.path());
    let agents =
        machines.iter().filter_map(|machine| started_for(ProcessKind::MachineAgent, machine, machine));
    let agents = agents.chain(started).chain(held.machine_agents).filter(|process| !servers.has(*process));
    stopped.stop(agents.collect(), AGENT_GRACE).await;
    stop_units(&machines, held.unit_agents, &mut stopped).await;
    servers.stop(&mut stopped).await;
    stopped
}

/// Stops all processes of one machine. `agent`: its agent, which may not have written its pid file yet.
pub async fn stop_machine(folder: &Path, agent: Option<Process>) -> StopResult {
    let mut stopped = StopResult::default();
    let named = started_for(ProcessKind::MachineAgent, folder, folder);
    stopped.stop(agent.into_iter().chain(named).collect(), AGENT_GRACE).await;
    stop_units(&[folder.to_owned()], HeldLocks::below(folder).unit_agents, &mut stopped).await;
    stopped
}

/// Stops the servers and the machine agents that a killed supervisor left running, and those that this one has
/// `started`. Unit agents keep running.
pub async fn stop_orphans(dir: &DataDir, started: Vec<Process>) -> StopResult {
    let mut stopped = StopResult::default();
    let machines = machine_folders(dir.path());
    let named =
        machines.iter().filter_map(|machine| started_for(ProcessKind::MachineAgent, machine, machine));
    let servers = Servers::running(dir);
    let agents = named.chain(started).chain(HeldLocks::below(dir.path()).machine_agents);
    let agents = agents.filter(|process| !servers.has(*process));
    stopped.stop(agents.chain(servers.controllers.iter().copied()).collect(), CONTROLLER_GRACE).await;
    Servers { controllers: Vec::new(), ..servers }.stop(&mut stopped).await;
    stopped
}

/// The agents that hold the locks below a data folder or the folder of a machine.
#[derive(Default)]
struct HeldLocks {
    machine_agents: Vec<Process>,
    unit_agents: Vec<Process>,
}

impl HeldLocks {
    fn below(folder: &Path) -> HeldLocks {
        let mut found = HeldLocks::default();
        let machines = machine_folders(folder);
        for machine in machines.iter().map(PathBuf::as_path).chain([folder]) {
            found.machine_agents.extend(host::lock::holder(&machine.join(MACHINE_LOCK)));
            let units = folders(&machine.join(AGENTS_DIR));
            found
                .unit_agents
                .extend(units.iter().filter_map(|unit| host::lock::holder(&unit.join(AGENT_LOCK))));
        }
        for (file, holder) in unreadable_agents(folder) {
            match file {
                MACHINE_LOCK => found.machine_agents.push(holder),
                _ => found.unit_agents.push(holder),
            }
        }
        for HeldLock { file, holder } in host::lock::held_below(folder) {
            // the whole path: a charm may have locks of these names below its own folder
            let names: Vec<&str> = file.iter().filter_map(|name| name.to_str()).collect();
            match names[..] {
                [MACHINES_DIR, _, MACHINE_LOCK] => found.machine_agents.push(holder),
                [MACHINES_DIR, _, AGENTS_DIR, _, AGENT_LOCK] | [AGENTS_DIR, _, AGENT_LOCK] => {
                    found.unit_agents.push(holder);
                }
                _ => {}
            }
        }
        found
    }
}

/// The agents below a folder whose open files this user may not read, with the name of their lock: an agent of an ordinary
/// user must not be dumped, and it has no file any more by which it could be found if its folder was deleted. It holds a
/// lock, belongs to this user, and was started for a folder below this one.
fn unreadable_agents(folder: &Path) -> Vec<(&'static str, Process)> {
    let found = host::lock::unreadable_holders().into_iter().filter_map(|holder| {
        let arguments = holder.arguments();
        let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let (lock, path) = match words[..] {
            [_, "machine", "--data", path, ..] => (MACHINE_LOCK, path),
            [_, "unit", "--dir", path, ..] => (AGENT_LOCK, path),
            _ => return None,
        };
        Path::new(path).starts_with(folder).then_some((lock, holder))
    });
    found.collect()
}

/// Stops unit agents, those of the pid files and those that are `known`, then the processes of their hooks: those of the
/// pid files, and the children of the agents, because the files may have been deleted.
async fn stop_units(machines: &[PathBuf], known: Vec<Process>, stopped: &mut StopResult) {
    let units: Vec<PathBuf> =
        machines.iter().flat_map(|machine| folders(&machine.join(AGENTS_DIR))).collect();
    let agents = units.iter().filter_map(|unit| started_for(ProcessKind::UnitAgent, unit, unit));
    let agents: BTreeSet<Process> = agents.chain(known).collect();
    let children = process_tree::children(&agents);
    stopped.stop(agents, AGENT_GRACE).await;
    let runs =
        units.iter().flat_map(|unit| folders(&unit.join(RUNS_DIR)).into_iter().map(move |run| (unit, run)));
    let shims = runs.filter_map(|(unit, run)| started_for(ProcessKind::Shim, unit, &run)).chain(children);
    stopped.stop(shims.flat_map(process_tree::with_descendants).collect(), HOOK_GRACE).await;
}

/// The process that a pid file in a folder names, if it is of this kind and was started for this folder, or works below that
/// of its unit or machine, which may have been moved since. Both are required: a shell or an editor of a person may work in
/// the folder, and a charm can write its pid into the file.
fn started_for(kind: ProcessKind, owner: &Path, folder: &Path) -> Option<Process> {
    let process = Process::read_alive(&folder.join(kind.pid_file()))?;
    let is_below = |at: PathBuf| owner.canonicalize().is_ok_and(|owner| at.starts_with(owner));
    let is_for_folder = || process.has_argument(folder) || process.working_folder().is_some_and(is_below);
    (kind.is_kind_of(process) && is_for_folder()).then_some(process)
}

/// The processes of a machine that have a pid file.
#[derive(Clone, Copy)]
enum ProcessKind {
    MachineAgent,
    UnitAgent,
    Shim,
}

impl ProcessKind {
    fn pid_file(self) -> &'static str {
        match self {
            ProcessKind::MachineAgent => MACHINE_PID,
            ProcessKind::UnitAgent => AGENT_PID,
            ProcessKind::Shim => SHIM_PID,
        }
    }

    /// Whether a process runs the program of this kind, with the argument that this kind of an agent has. An upgrade may have
    /// given the program another ending. The program of an agent of an ordinary user may not be read, but its arguments may.
    fn is_kind_of(self, process: Process) -> bool {
        let (program, subcommand) = match self {
            ProcessKind::MachineAgent => ("pintle-agent", Some("machine")),
            ProcessKind::UnitAgent => ("pintle-agent", Some("unit")),
            ProcessKind::Shim => ("pintle-hook", None),
        };
        let arguments = process.arguments();
        let path = process.program().or_else(|| arguments.first().map(PathBuf::from)).unwrap_or_default();
        let is_program =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(program.as_bytes()));
        let has_word = |word| arguments.get(1).is_some_and(|argument| argument == word);
        is_program && subcommand.is_none_or(has_word)
    }
}

/// The folders of machines in a data folder. An operator may have moved one to another disk, with a link in its place.
fn machine_folders(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join(MACHINES_DIR)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The subfolders of a folder in which charms may have made links; empty if it does not exist.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use tempfile::TempDir;

    /// Starts a process like the one that writes this pid file, for the folder of the file, and writes the file.
    fn named(programs: &TempDir, file: &Path) -> Child {
        let folder = file.parent().expect("in a folder");
        fs::create_dir_all(folder).expect("made");
        let (program, subcommand) = match file.file_name().and_then(|name| name.to_str()) {
            Some(MACHINE_PID) => ("pintle-agent", "machine"),
            Some(AGENT_PID) => ("pintle-agent", "unit"),
            Some(SHIM_PID) => ("pintle-hook", "shim"),
            _ => ("sh", "controller"),
        };
        start(programs, file, (program, subcommand), folder)
    }

    /// Starts a shell as this program with these arguments, elsewhere, and writes its pid into the file.
    fn start(programs: &TempDir, file: &Path, (program, subcommand): (&str, &str), folder: &Path) -> Child {
        let path = programs.path().join(program);
        if !path.exists() {
            fs::copy("/bin/sh", &path).expect("copied");
        }
        // the shell takes its first argument for the name of its script
        let script = programs.path().join(subcommand);
        // another shell may be reading it
        if !script.exists() {
            fs::write(&script, "read line").expect("written");
        }
        let mut shell = Command::new(&path);
        shell.arg(subcommand).arg(folder).current_dir(programs).process_group(0).stdin(Stdio::piped());
        let child = shell.spawn().expect("a shell");
        let process = Process::find(child.id() as i32).expect("alive");
        fs::write(file, format!("{process}\n")).expect("written");
        child
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_processes_with_pid_files_are_stopped() {
        let [folder, programs] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        let machine = dir.machines().join("m");
        let unit = machine.join("agents/unit-web-0");
        let (other_disk, linked) = (tempfile::tempdir().expect("a folder"), dir.machines().join("linked"));
        fs::create_dir_all(dir.machines()).expect("made");
        std::os::unix::fs::symlink(other_disk.path(), &linked).expect("made");
        let mut children = [
            named(&programs, &dir.controller_pid()),
            named(&programs, &machine.join(MACHINE_PID)),
            named(&programs, &unit.join(AGENT_PID)),
            named(&programs, &unit.join("hooks/000001/shim.pid")),
            named(&programs, &linked.join("agents/unit-web-1").join(AGENT_PID)),
        ];
        let mut other = Command::new("sleep").arg("1000").spawn().expect("a process");
        // A stale pid file: the process ID belongs to a newer process now.
        let process = Process::find(other.id() as i32).expect("alive");
        let stale = Process { start: process.start - 1, ..process };
        fs::create_dir_all(unit.join("hooks/000002")).expect("made");
        fs::write(unit.join("hooks/000002/shim.pid"), stale.to_string()).expect("written");
        // A hook has written the pid of a process of somebody else.
        let forged = machine.join("agents/unit-web-2").join(AGENT_PID);
        fs::create_dir_all(forged.parent().expect("in a folder")).expect("made");
        let mut foreign = named(&programs, &machine.join("agents/unit-web-3").join(AGENT_PID));
        fs::rename(machine.join("agents/unit-web-3").join(AGENT_PID), &forged).expect("of this unit now");
        // It has also written the pids of a shell and of a program of a person that were started for the unit.
        let unit_4 = machine.join("agents/unit-web-4");
        fs::create_dir_all(unit_4.join("hooks/000001")).expect("made");
        let mut persons = [
            start(&programs, &unit_4.join(AGENT_PID), ("sh", "unit"), &unit_4),
            start(
                &programs,
                &unit_4.join("hooks/000001/shim.pid"),
                ("vim", "unit"),
                &unit_4.join("hooks/000001"),
            ),
            start(
                &programs,
                &machine.join("agents/unit-web-3").join(AGENT_PID),
                ("pintle-agent", "runs"),
                &unit_4,
            ),
        ];

        assert_eq!(stop_all(&dir).await, StopResult { ended: 5, left: vec![] });
        for child in &mut children {
            child.wait().expect("its parent");
        }
        assert!(process.is_alive() && Process::read_alive(&forged).is_some());
        for person in &mut persons {
            assert!(person.try_wait().is_ok_and(|ended| ended.is_none()), "{person:?}");
            person.kill().and_then(|()| person.wait()).expect("its parent");
        }
        foreign.kill().and_then(|()| foreign.wait()).expect("its parent");
        assert_eq!(stop_all(&dir).await, StopResult::default());
        other.kill().and_then(|()| other.wait()).expect("its parent");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn orphaned_machine_agents_are_stopped_and_unit_agents_keep_running() {
        let [folder, programs] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        let machine = dir.machines().join("m");
        let mut agent = named(&programs, &machine.join(MACHINE_PID));
        let mut unit = named(&programs, &machine.join("agents/unit-web-0/agent.pid"));
        assert_eq!(stop_orphans(&dir, vec![]).await, StopResult { ended: 1, left: vec![] });
        agent.wait().expect("its parent");
        assert!(Process::find(unit.id() as i32).is_some_and(|unit| unit.is_alive()));
        unit.kill().and_then(|()| unit.wait()).expect("its parent");
    }
}
