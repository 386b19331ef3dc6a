//! Kills the remaining processes of a run, and no others.
//!
//! The processes of a run are its recorded shim and the process group of its hook. A group is that of the hook if a process
//! that belongs to the run (`own_processes`) is in it: the number of a group alone proves nothing, because the kernel reuses
//! it.
//!
//! Called before a run is repeated, when an agent finds runs that its state does not know, when a unit is stopped, when a
//! hook has requested a reboot, when a user cancels an action or commands, and when a person ends a hook (`stop-hook`).

use super::delete_unmasked_output;
use super::own_processes::OwnProcesses;
use super::run_files::{read_outcome, read_run_file};
use crate::clock::kernel_boot_id;
use crate::folder::UnitFolder;
use hook_client::shim;
use host::process::Process;
use nix::sys::signal::Signal;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How often a re-attached or killed process is polled: it is not a child of this process.
pub(super) const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Polls of a shim whose hook was killed, 20 ms apart: 1 s, ten times what the shim waits for the remaining
/// output.
const SHIM_POLLS_MAX: u32 = 50;
/// Polls of killed processes, 20 ms apart, after which a warning is logged: every 10 s.
const KILL_POLLS_PER_WARNING: u32 = 500;

/// The time between SIGTERM and SIGKILL for a cancelled process: half of the ten seconds within which it ends.
const GRACE: Duration = Duration::from_secs(5);
/// A process that has not ended this long after its first SIGKILL hangs in a system call. This is logged, and the run
/// continues to wait for it.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a person waits for the end of a hook: its grace, the time in which a killed process ends, and that of its shim,
/// rounded up.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Polls to wait for a process whose environment is still empty. An exec takes microseconds, and longer on a stopped or
/// overloaded machine. A process without an environment looks the same for ever, so it is ignored after 100 polls: 2 s.
const EXEC_POLLS_MAX: u32 = 100;

/// Kills the recorded processes of a run and the hook's process group, and waits until they have ended. This
/// must be done before the run is repeated (design 12). Processes that the hook started in other sessions
/// belong to the charm and continue, unless the shim died before it recorded the hook: then all processes with the id of
/// the context are killed. After another boot there are none.
pub async fn kill_remaining_processes(run_folder: &Path) {
    let run_file = read_run_file(run_folder);
    if run_file.as_ref().is_some_and(|run_file| run_file.boot != kernel_boot_id()) {
        return;
    }
    let shim = Process::read(&run_folder.join(shim::SHIM_PID));
    let own = OwnProcesses::of(run_folder);
    let running_shim = || shim.filter(|shim| own.is_shim(shim));
    if let Some(shim) = running_shim() {
        // Looked for before its shim ends: a leader that has cleared its environment and left the folder is known as its
        // child only. Killed after it: a shim would store how its hook has ended.
        let hook = Process::read(&run_folder.join(shim::HOOK_PID));
        let group = hook.map(|hook| HookGroup::of_hook(hook, Some(shim), &own));
        kill(&shim);
        if let Some(HookGroup::Running(members)) = group {
            members.iter().for_each(kill);
        }
    }
    let mut unknown_polls = 0;
    for polls in 1u32.. {
        if polls.is_multiple_of(KILL_POLLS_PER_WARNING) {
            tracing::error!("{}: waiting for a killed hook that does not end", run_folder.display());
        }
        // checked before the pid file is read, because a dying shim may still write it
        let shim_ended = running_shim().is_none();
        let group = match (Process::read(&run_folder.join(shim::HOOK_PID)), shim) {
            (Some(hook), _) => HookGroup::of_hook(hook, shim, &own),
            (None, Some(shim)) => HookGroup::without_pid(shim, &own),
            (None, None) => HookGroup::Ended,
        };
        match &group {
            HookGroup::Running(members) => members.iter().for_each(kill),
            HookGroup::Unknown if unknown_polls < EXEC_POLLS_MAX => unknown_polls += 1,
            HookGroup::Unknown | HookGroup::Ended if shim_ended => return,
            HookGroup::Unknown | HookGroup::Ended => {}
        }
        tokio::time::sleep(PROCESS_POLL_INTERVAL).await;
    }
}

/// Kills the processes of runs that the stored state does not contain, because the state was deleted or replaced by an older
/// one: nobody would read their outcomes, and they would hold the hook lock. `started_run` is the run that the state
/// contains. What the newest run has printed is deleted if it may contain secrets and the state does not have its end.
pub async fn kill_unknown_runs(folder: &UnitFolder, started_run: Option<u64>, is_state_lost: bool) {
    let newest = folder.kept_runs().pop().map(|(number, _)| number);
    for (number, run_folder) in folder.kept_runs() {
        if Some(number) != started_run && is_running(&run_folder) {
            let reason = "the stored state does not contain this run";
            tracing::warn!("{}: its processes are killed: {reason}", run_folder.display());
            let killed = kill_remaining_processes(&run_folder);
            if tokio::time::timeout(END_TIMEOUT, killed).await.is_err() {
                tracing::error!("{}: its processes do not end", run_folder.display());
            }
            delete_unmasked_output(&run_folder);
        } else if is_state_lost && Some(number) == newest {
            delete_unmasked_output(&run_folder);
        }
    }
}

/// Kills a hook that requested a reboot at once. Its shim continues until it has stored the hook's output,
/// which is final.
pub(super) async fn stop_for_reboot(run_folder: &Path) {
    let own = OwnProcesses::of(run_folder);
    let shim = Process::read(&run_folder.join(shim::SHIM_PID));
    for _ in 0..SHIM_POLLS_MAX {
        // a shim that runs may not have recorded its hook yet
        if read_outcome(run_folder).is_some() || !shim.is_some_and(|shim| shim.is_alive()) {
            break;
        }
        let hook = Process::read(&run_folder.join(shim::HOOK_PID));
        if let Some(HookGroup::Running(members)) = hook.map(|hook| HookGroup::of_hook(hook, shim, &own)) {
            members.iter().for_each(kill);
        }
        tokio::time::sleep(PROCESS_POLL_INTERVAL).await;
    }
    kill_remaining_processes(run_folder).await;
}

/// Ends the process group of a run that a user has cancelled: SIGTERM, and SIGKILL for what is left after
/// [`GRACE`]. The shim continues, and stores how its program has ended. A program that starts later, for example because
/// the disk was full, is ended as well, unless `has_run_ended`.
pub(super) async fn end_processes(run_folder: &Path, has_run_ended: &Cell<bool>) {
    let (mut terminated_at, mut unknown_polls) = (None, 0);
    loop {
        match Process::read(&run_folder.join(shim::HOOK_PID)) {
            None if has_run_ended.get() || read_outcome(run_folder).is_some() => return,
            // the program has not started yet
            None => {}
            Some(hook) => match HookGroup::of_hook(
                hook,
                Process::read(&run_folder.join(shim::SHIM_PID)),
                &OwnProcesses::of(run_folder),
            ) {
                HookGroup::Running(members) => {
                    let elapsed = terminated_at.map(|since: Instant| since.elapsed());
                    let sent = match elapsed {
                        None => Some(Signal::SIGTERM),
                        Some(elapsed) if elapsed < GRACE => None,
                        Some(elapsed) if elapsed < GRACE + END_TIMEOUT => Some(Signal::SIGKILL),
                        Some(_) => break,
                    };
                    terminated_at = terminated_at.or(Some(Instant::now()));
                    sent.iter().for_each(|sent| members.iter().for_each(|process| signal(process, *sent)));
                }
                HookGroup::Unknown if unknown_polls < EXEC_POLLS_MAX => unknown_polls += 1,
                HookGroup::Unknown | HookGroup::Ended => return,
            },
        }
        tokio::time::sleep(PROCESS_POLL_INTERVAL).await;
    }
    tracing::error!("{}: a cancelled process does not end", run_folder.display());
}

/// Ends the processes of the run of a unit that runs now, as a person requests it: it fails, as if it had been killed.
/// Returns a line that names it. The unit agent need not run.
///
/// # Errors
/// If nothing runs, or its processes do not end.
pub async fn stop_running(unit: &Path) -> anyhow::Result<String> {
    let folder = UnitFolder::new(unit.to_path_buf());
    let Some((number, run_folder)) = running(&folder) else {
        anyhow::bail!("cannot stop a hook of {}: no hook runs", folder.tag());
    };
    let operation = read_run_file(&run_folder).map(|run_file| run_file.operation.to_string());
    let operation = operation.unwrap_or_default();
    let ended = async {
        // a hook that has not started yet is waited for
        end_processes(&run_folder, &Cell::new(false)).await;
        while read_outcome(&run_folder).is_none() && running(&folder).is_some() {
            tokio::time::sleep(PROCESS_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
        anyhow::bail!("cannot stop {operation} (run {number}) of {}: it does not end", folder.tag());
    }
    Ok(format!("{}: stopped {operation} (run {number})\n", folder.tag()))
}

/// The run of a unit whose processes run, with its folder.
pub fn running(folder: &UnitFolder) -> Option<(u64, PathBuf)> {
    folder.kept_runs().pop().filter(|(_, run_folder)| is_running(run_folder))
}

/// Whether processes of a run are alive, and it has no outcome.
pub fn is_running(run_folder: &Path) -> bool {
    let is_alive = |file| Process::read_alive(&run_folder.join(file)).is_some();
    // the processes first: a run that ends meanwhile has its outcome then
    (is_alive(shim::SHIM_PID) || is_alive(shim::HOOK_PID)) && read_outcome(run_folder).is_none()
}

/// The process group that a hook led. After the hook has ended, the kernel may reuse its number for another
/// group: that group does not have the id of this run's context and is not touched.
enum HookGroup {
    /// The processes of the run.
    Running(Vec<Process>),
    /// No process of the run was found, but the environment of one process is empty, as the kernel shows it
    /// while a process is replaced by its program (exec).
    Unknown,
    /// No process of the run is left.
    Ended,
}

impl HookGroup {
    /// The group that the pid file names. A leader that has cleared its environment and left the folder of the unit is of the
    /// run as long as its shim runs.
    fn of_hook(hook: Process, shim: Option<Process>, own: &OwnProcesses) -> HookGroup {
        let members = Process::in_group(hook.pid);
        if members.iter().any(|process| own.is_hook(process, shim)) {
            return HookGroup::Running(members);
        }
        HookGroup::from_others(&members)
    }

    /// For a shim that may have died between starting its hook and writing the pid file: the processes that
    /// were started since then and have the id of this run's context.
    fn without_pid(shim: Process, own: &OwnProcesses) -> HookGroup {
        let (members, others): (Vec<Process>, Vec<Process>) =
            Process::started_since(shim.start).into_iter().partition(|process| own.has_context(process));
        if members.is_empty() { HookGroup::from_others(&others) } else { HookGroup::Running(members) }
    }

    fn from_others(others: &[Process]) -> HookGroup {
        if others.iter().any(Process::has_no_environment) { HookGroup::Unknown } else { HookGroup::Ended }
    }
}

fn kill(process: &Process) {
    signal(process, Signal::SIGKILL);
}

fn signal(process: &Process, signal: Signal) {
    if let Err(error) = process.signal(signal) {
        tracing::warn!("cannot send {signal} to process {}: {error}", process.pid);
    }
}
