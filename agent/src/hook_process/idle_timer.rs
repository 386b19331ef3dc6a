//! Ends a process that has been idle for a time. The process is a child of this one that nobody has waited for yet, so that
//! its pid is its own.

use host::process::Process;
use nix::sys::signal::Signal;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How long a warm parent stays that forks nothing: two intervals of update-status, which alone does not keep it.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The timer of one process. Dropping it stops the timer.
pub(super) struct IdleTimer {
    process: Process,
    timeout: Duration,
    timer: AbortHandle,
}

impl IdleTimer {
    /// Kills the process after this time, unless the timer is restarted.
    pub(super) fn start(process: Process, timeout: Duration) -> IdleTimer {
        IdleTimer { process, timeout, timer: kill_after(process, timeout) }
    }

    /// Begins to count again.
    pub(super) fn restart(&mut self) {
        self.timer.abort();
        self.timer = kill_after(self.process, self.timeout);
    }
}

impl Drop for IdleTimer {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

fn kill_after(process: Process, timeout: Duration) -> AbortHandle {
    let timer = async move {
        tokio::time::sleep(timeout).await;
        process.signal(Signal::SIGKILL).ok();
    };
    tokio::spawn(timer).abort_handle()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, Process) {
        let child = Command::new("/bin/sleep").arg("1000").spawn().expect("it is installed");
        let process = Process::find(child.id().try_into().expect("a pid")).expect("it runs");
        (child, process)
    }

    /// Advances the clock, and runs the timers that are due.
    async fn advance(time: Duration) {
        tokio::time::advance(time).await;
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_ends_after_ten_idle_minutes() {
        let (almost, rest) = (Duration::from_secs(599), Duration::from_secs(2));
        let (mut child, process) = sleeper();
        let mut timer = IdleTimer::start(process, IDLE_TIMEOUT);
        tokio::task::yield_now().await;
        for _ in 0..3 {
            advance(almost).await;
            timer.restart();
            tokio::task::yield_now().await;
        }
        assert!(process.is_alive(), "it was used in each ten minutes");
        advance(almost).await;
        assert!(process.is_alive());
        advance(rest).await;
        assert_eq!(child.wait().expect("it has ended").signal(), Some(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_was_dropped_kills_nothing() {
        let (mut child, process) = sleeper();
        drop(IdleTimer::start(process, IDLE_TIMEOUT));
        advance(2 * IDLE_TIMEOUT).await;
        assert!(process.is_alive());
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
    }
}
