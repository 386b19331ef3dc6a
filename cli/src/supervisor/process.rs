//! Finds the processes of a container, of a hook and of a parent, and stops processes.
//!
//! Used by `stop` and by the providers. [`host::process`] ensures that no other process receives a signal.

use host::process::{Process, Stat};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between two checks whether a process has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time until a killed process exits; a process that takes longer hangs in a system call.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The running processes whose root is below this folder, directly or as the upper layer of an overlay. These are the
/// processes that remain in a container after systemd-nspawn was killed.
pub fn processes_in_container(folder: &Path) -> Vec<Process> {
    let (root, upper) =
        (format!("{}/root", folder.display()), format!("upperdir={}/upper,", folder.display()));
    let is_in_container = |process: &Process| {
        let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", process.pid)).unwrap_or_default();
        let mut roots = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/"));
        roots.any(|line| line.contains(&upper) || line.split(' ').nth(3) == Some(&root))
    };
    Process::all().into_keys().filter(is_in_container).collect()
}

/// The direct children of a process.
pub fn children(parent: Process) -> Vec<Process> {
    let living = Process::all().into_iter();
    living.filter(|(_, stat)| stat.parent == parent.pid).map(|(process, _)| process).collect()
}

/// A hook shim and all processes of its hook: its descendants and the process group of its child. A process that
/// moved to a session of its own belongs to the charm and is not included (design 12).
pub fn hook_processes(shim: Process) -> Vec<Process> {
    hook_members(shim, &Process::all()).into_iter().collect()
}

fn hook_members(shim: Process, living: &BTreeMap<Process, Stat>) -> BTreeSet<Process> {
    let Some(own) = living.get(&shim) else {
        return BTreeSet::new();
    };
    let mut sessions = BTreeSet::from([own.session]);
    let mut groups = BTreeSet::new();
    for (process, child) in living.iter().filter(|(_, stat)| stat.parent == shim.pid) {
        sessions.insert(child.session);
        if child.group == process.pid {
            groups.insert(child.group);
        }
    }
    let mut members = BTreeSet::from([shim]);
    loop {
        let parents: BTreeSet<i32> = members.iter().map(|member| member.pid).collect();
        let more = living.iter().filter(|(process, stat)| {
            let related = parents.contains(&stat.parent) || groups.contains(&stat.group);
            related && sessions.contains(&stat.session) && !members.contains(process)
        });
        let more: Vec<Process> = more.map(|(process, _)| *process).collect();
        if more.is_empty() {
            return members;
        }
        members.extend(more);
    }
}

/// Sends SIGTERM, and SIGKILL to the processes that have not exited after `grace`. Returns those that still run.
pub async fn stop(processes: &[Process], grace: Duration) -> Vec<Process> {
    stop_by(Signal::SIGTERM, processes, grace).await
}

/// As [`stop`], with another first signal.
pub async fn stop_by(first: Signal, processes: &[Process], grace: Duration) -> Vec<Process> {
    signal(processes, first);
    let left = wait_for_exit(processes, grace).await;
    signal(&left, Signal::SIGKILL);
    wait_for_exit(&left, KILL_TIMEOUT).await
}

/// Signals processes. Errors are ignored: a process that cannot be signalled still runs after its grace period and is
/// reported then.
fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        let _ = process.signal(signal);
    }
}

/// Waits until processes have exited, at most `bound`. Returns those that still run.
async fn wait_for_exit(processes: &[Process], bound: Duration) -> Vec<Process> {
    let end = Instant::now() + bound;
    loop {
        let left: Vec<Process> = processes.iter().copied().filter(Process::is_alive).collect();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_hook_is_its_shim_child_and_group_but_not_what_left_the_session() {
        let stat = |parent, group, session| Stat { ended: false, parent, group, session, start: 1 };
        let process = |pid| Process { pid, start: 1 };
        let living = BTreeMap::from([
            (process(10), stat(1, 10, 10)),  // the agent
            (process(20), stat(10, 10, 10)), // the shim
            (process(30), stat(20, 30, 10)), // the hook, leads a group
            (process(31), stat(30, 30, 10)), // its child
            (process(32), stat(1, 30, 10)),  // of its group, orphaned
            (process(33), stat(30, 33, 33)), // a daemon the charm started
            (process(34), stat(33, 33, 33)), // and its child
            (process(40), stat(10, 10, 10)), // a sibling
        ]);
        let pids: Vec<i32> =
            hook_members(process(20), &living).into_iter().map(|process| process.pid).collect();
        assert_eq!(pids, [20, 30, 31, 32]);
        assert!(hook_members(process(99), &living).is_empty());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_ignores_sigterm_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo trap; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut printed = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut printed).expect("it traps now");
        let process = Process::find(child.id() as i32).expect("alive");
        assert_eq!(stop(&[process], Duration::from_millis(100)).await, []);
        assert!(!process.is_alive());
        let status = child.wait().expect("its parent");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
