//! Watches the process of a warm parent, and ends it when it is idle, imports for too long, or the host has little available
//! memory. Its place among the warm parents of the machine is free once it has ended.

use super::memory_guard::{MEMORY_INTERVAL, MemoryGuard};
use host::lock::Lock;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

/// How long a warm parent stays that forks nothing: two intervals of update-status, which alone does not keep it.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a warm parent may import the modules of its charm. A charm on ops takes 0.1 s, and a hundred times that on a slow
/// host with a cold cache: six times more.
pub(super) const IMPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a warm parent was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentEnd {
    /// It has forked nothing for [`IDLE_TIMEOUT`].
    Idle,
    /// It has not imported the modules within [`IMPORT_TIMEOUT`].
    LongImport,
    /// The host has little available memory.
    LittleMemory,
}

/// The next end of a warm parent, unless it is used.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    end: ParentEnd,
}

impl Deadline {
    fn after(timeout: Duration, end: ParentEnd) -> Deadline {
        Deadline { at: Instant::now() + timeout, end }
    }
}

/// The watch of one process. Dropping it kills the process.
pub(super) struct ParentWatch {
    deadline: watch::Sender<Deadline>,
    end: Arc<OnceLock<ParentEnd>>,
    task: AbortHandle,
}

impl ParentWatch {
    /// Watches a process that imports modules, and then answers through this socket. It is killed when it is dropped, and
    /// has this place.
    pub(super) fn start(
        process: Child,
        control: Arc<UnixStream>,
        place: Option<Lock>,
        memory: Arc<MemoryGuard>,
    ) -> ParentWatch {
        let (deadline, next) = watch::channel(Deadline::after(IMPORT_TIMEOUT, ParentEnd::LongImport));
        let end = Arc::new(OnceLock::new());
        let why = Arc::clone(&end);
        let task = tokio::spawn(async move {
            let has_answered = || {
                let answer = recv(control.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK);
                answer.is_ok_and(|bytes| bytes > 0)
            };
            end_in_time(process, next, has_answered, &memory, &why).await;
            drop(place);
        });
        ParentWatch { deadline, end, task: task.abort_handle() }
    }

    /// It has imported the modules, or has been used: it is idle from now on.
    pub(super) fn restart_idle_timer(&self) {
        self.deadline.send_replace(Deadline::after(IDLE_TIMEOUT, ParentEnd::Idle));
    }

    /// Why it was ended, if it was.
    pub(super) fn end(&self) -> Option<ParentEnd> {
        self.end.get().copied()
    }
}

impl Drop for ParentWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns when the process has ended.
async fn end_in_time(
    mut process: Child,
    mut deadline: watch::Receiver<Deadline>,
    has_answered: impl Fn() -> bool,
    memory: &MemoryGuard,
    why: &OnceLock<ParentEnd>,
) {
    let mut checks = interval_at(Instant::now() + MEMORY_INTERVAL, MEMORY_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = *deadline.borrow_and_update();
    let end = loop {
        tokio::select! {
            _ = process.wait() => return,
            changed = deadline.changed() => match changed {
                Ok(()) => next = *deadline.borrow_and_update(),
                Err(_) => return,
            },
            // the answer is read when the next hook starts
            () = sleep_until(next.at) => match next.end {
                ParentEnd::LongImport if has_answered() => {
                    next = Deadline { at: next.at + (IDLE_TIMEOUT - IMPORT_TIMEOUT), end: ParentEnd::Idle };
                }
                end => break end,
            },
            _ = checks.tick() => if !memory.has_room() { break ParentEnd::LittleMemory },
        }
    };
    // whoever finds the process ended knows why
    why.set(end).ok();
    process.kill().await.ok();
}

#[cfg(test)]
mod tests {
    use super::super::memory_guard::tests::{LITTLE, guard};
    use super::*;
    use host::process::Process;
    use tokio::process::Command;

    /// A process that is watched, and its end of the socket.
    fn watched(memory: &Arc<MemoryGuard>) -> (ParentWatch, Process, UnixStream) {
        let (control, other_end) = UnixStream::pair().expect("sockets");
        let process = Command::new("/bin/sleep").arg("1000").kill_on_drop(true).spawn().expect("installed");
        let pid = process.id().and_then(|pid| pid.try_into().ok()).expect("it runs");
        let found = Process::find(pid).expect("it runs");
        (ParentWatch::start(process, Arc::new(control), None, Arc::clone(memory)), found, other_end)
    }

    async fn until_ended(process: Process) {
        while process.is_alive() {
            tokio::task::yield_now().await;
        }
    }

    /// Advances the clock, and runs the timers that are due.
    async fn advance(time: Duration) {
        tokio::time::advance(time).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_ends_after_ten_idle_minutes() {
        let (_folder, memory) = guard("");
        let (watch, process, _socket) = watched(&memory);
        for _ in 0..3 {
            watch.restart_idle_timer();
            advance(Duration::from_secs(599)).await;
        }
        assert!(process.is_alive(), "it was used in each ten minutes");
        assert_eq!(watch.end(), None);
        advance(Duration::from_secs(2)).await;
        until_ended(process).await;
        assert_eq!(watch.end(), Some(ParentEnd::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_imports_for_a_minute_ends() {
        let (_folder, memory) = guard("");
        let (watch, process, _socket) = watched(&memory);
        advance(Duration::from_secs(59)).await;
        assert!(process.is_alive());
        advance(Duration::from_secs(2)).await;
        until_ended(process).await;
        assert_eq!(watch.end(), Some(ParentEnd::LongImport));
    }

    /// The agent reads that the modules are imported when the next hook starts.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_has_imported_is_idle() {
        let (_folder, memory) = guard("");
        let (watch, process, socket) = watched(&memory);
        socket.try_write(b"ready\n").expect("there is room");
        advance(Duration::from_secs(599)).await;
        assert!(process.is_alive());
        advance(Duration::from_secs(2)).await;
        until_ended(process).await;
        assert_eq!(watch.end(), Some(ParentEnd::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_ends_when_the_host_has_little_memory() {
        let (folder, memory) = guard("");
        let (watch, process, _socket) = watched(&memory);
        watch.restart_idle_timer();
        advance(2 * MEMORY_INTERVAL).await;
        assert!(process.is_alive());
        std::fs::write(folder.path().join("meminfo"), LITTLE).expect("written");
        advance(MEMORY_INTERVAL).await;
        until_ended(process).await;
        assert_eq!(watch.end(), Some(ParentEnd::LittleMemory));
    }

    #[tokio::test]
    async fn a_process_ends_with_its_watch() {
        let (_folder, memory) = guard("");
        let (watch, process, _socket) = watched(&memory);
        drop(watch);
        until_ended(process).await;
    }
}
