//! The hand-off of a run from a warm parent to the shim that it forks, with a bound: the handlers that libraries have
//! registered for a fork (`os.register_at_fork`, `pthread_atfork`) run in what it forks, and may never return.
//!
//! A hook runs exactly as often as one that is started as usual, because of the gate of its shim:
//!
//! 1. The warm parent forks a child, which forks the hook. Handlers run in both. Neither has the gate or the hook lock yet, so
//!    one that hangs delays nobody else. Each of them reports once its handlers have returned ([`FORKED`], [`HOOK_WAITS`]). A
//!    hook that stands for a shell forks once more, and what it forks reports for both.
//! 2. When the child has reported, the agent sends it the gate and the lock. The child replaces itself by the shim, which
//!    reports as well ([`FORKED_SHIM_WAITS`]), and waits at the gate. The hook waits until its shim has recorded it.
//! 3. The agent opens the gate after all three reports. From then on everything is as usual, and nothing is ended by this
//!    module any more. Before that no hook can run: only this agent opens the gate.
//! 4. If a report is missing at the bound, the agent closes the gate and the socket, kills the parent and what it has forked,
//!    and waits until the socket is closed. Who becomes the shim or the hook at this very moment finds the gate closed, and
//!    ends without having run the hook. Nobody is left then who would write into the folder of the run, and the agent
//!    starts the shim as usual, with another gate. The charm has no warm parent from then on, so this happens once.
//! 5. If the agent is killed before it has opened the gate, the kernel closes its ends of the gate and of the socket and
//!    kills the parent. What waits for the agent ends. What hangs in a handler is left, without the hook lock: the next agent
//!    of the unit kills it at its start ([`kill_forked`]). It finds a run that was started without an outcome, as after any
//!    other death before the gate was open, and repeats it.
//! 6. If the agent is killed after it has opened the gate, the shim and the hook continue, and the next agent re-attaches.
//!    Their environment is that of the run, so that `kill_forked` does not concern them.

use crate::folder::UnitFolder;
use hook_client::shim::FORKED_SHIM_WAITS;
use host::process::Process;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// How long what a warm parent has forked may take to become the shim and the hook. It takes some 5 ms: a thousand times
/// that.
pub(super) const HAND_OFF_TIMEOUT: Duration = Duration::from_secs(5);

/// The folder, in that of the unit, from which Python imports the program of the warm parent.
pub(super) const FOLDER: &str = "warm";

/// How often killed processes are polled: they are not children of this process.
const KILL_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Polls of processes that were killed, 20 ms apart, after which a warning is logged: every 10 s.
const KILL_POLLS_PER_WARNING: u32 = 500;

/// What the child of the warm parent reports (`warm_parent.py`).
const FORKED: u8 = b'f';
/// What the hook reports.
const HOOK_WAITS: u8 = b'h';

/// The files of the shim that is to be forked: its gate and the hook lock.
pub(super) struct ShimFiles {
    pub(super) gate: io::PipeReader,
    pub(super) lock: File,
}

/// A run that its warm parent has forked, and that has not become a shim and a hook yet. It proceeds while the start of the
/// run is being stored. Dropping it ends what was forked, and returns the lock.
pub(super) struct HandOff(JoinHandle<Result<UnixStream, NotHandedOff>>);

/// What was forked has not become a shim and a hook within [`HAND_OFF_TIMEOUT`], or has ended. Its socket is closed once
/// all of it has ended.
#[derive(Debug)]
pub(super) struct NotHandedOff {
    socket: UnixStream,
    /// Whether it has ended, and was not waited for in vain.
    pub(super) has_ended: bool,
}

impl HandOff {
    /// Begins to hand over the run with this socket.
    pub(super) fn start(socket: UnixStream, files: ShimFiles) -> HandOff {
        HandOff(tokio::spawn(async move {
            match tokio::time::timeout(HAND_OFF_TIMEOUT, hand_off(&socket, files)).await {
                Ok(Ok(())) => Ok(socket),
                Ok(Err(_)) => Err(NotHandedOff { socket, has_ended: true }),
                Err(_) => Err(NotHandedOff { socket, has_ended: false }),
            }
        }))
    }

    /// Waits for the end. Returns the socket of the shim, which now waits at its gate.
    ///
    /// # Errors
    /// If it does not wait there.
    pub(super) async fn end(mut self) -> Result<UnixStream, NotHandedOff> {
        (&mut self.0).await.expect("the task is neither aborted nor panics")
    }
}

impl Drop for HandOff {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for all reports.
async fn hand_off(socket: &UnixStream, files: ShimFiles) -> io::Result<()> {
    let mut missing = BTreeSet::from([FORKED, HOOK_WAITS, FORKED_SHIM_WAITS]);
    let mut files = Some(files);
    while !missing.is_empty() {
        let report = next_report(socket).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        missing.remove(&report);
        if report == FORKED
            && let Some(files) = files.take()
        {
            send_files(socket, &files).await?;
        }
    }
    Ok(())
}

async fn next_report(socket: &UnixStream) -> io::Result<Option<u8>> {
    loop {
        socket.readable().await?;
        let mut report = [0];
        match socket.try_read(&mut report) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(report[0])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn send_files(socket: &UnixStream, files: &ShimFiles) -> io::Result<()> {
    let descriptors = [files.gate.as_raw_fd(), files.lock.as_raw_fd()];
    let attached = [ControlMessage::ScmRights(&descriptors)];
    let send = || {
        let content = [IoSlice::new(b"\n")];
        sendmsg::<()>(socket.as_raw_fd(), &content, &attached, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    };
    socket.async_io(Interest::WRITABLE, send).await
}

/// Waits until no process has the other end of the socket.
pub(super) async fn until_closed(socket: &UnixStream) {
    while let Ok(Some(_)) = next_report(socket).await {}
}

impl NotHandedOff {
    /// Kills what was forked, and waits until it has ended. The warm parent must have been killed.
    pub(super) async fn kill(self, folder: &UnitFolder) {
        // what waits for the agent ends
        nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Write).ok();
        // what hangs may fork once more while the others are killed
        let killed = async {
            loop {
                kill_forked(folder).await;
                tokio::time::sleep(KILL_POLL_INTERVAL).await;
            }
        };
        tokio::select! { () = until_closed(&self.socket) => {}, () = killed => {} }
    }
}

/// Kills the warm parents of a unit and what they have forked that has become neither a shim nor a hook: these processes
/// have the environment with which the warm parent was started.
pub async fn kill_forked(folder: &UnitFolder) {
    let warm_folder = folder.file(FOLDER);
    if !warm_folder.is_dir() {
        // the unit has never had one
        return;
    }
    let is_forked = |process: &Process| {
        let path = process.variable("PYTHONPATH").unwrap_or_default();
        path.split(|byte| *byte == b':').next() == Some(warm_folder.as_os_str().as_encoded_bytes())
    };
    for polls in 1u32.. {
        let found: Vec<Process> = Process::all().into_keys().filter(is_forked).collect();
        if found.is_empty() {
            return;
        }
        if polls.is_multiple_of(KILL_POLLS_PER_WARNING) {
            tracing::error!("{folder}: waiting for a killed warm parent that does not end");
        }
        for process in found {
            process.signal(Signal::SIGKILL).ok();
        }
        tokio::time::sleep(KILL_POLL_INTERVAL).await;
    }
}
