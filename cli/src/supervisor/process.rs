//! Finds the processes of a container, and stops processes.
//!
//! Used by `stop` and by the providers. [`host::process`] ensures that no other process receives a signal.

use host::process::Process;
use nix::sys::signal::Signal;
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
