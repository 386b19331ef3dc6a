//! A shim that waits at its gate, and the shim that runs: a child of this process, or one that a warm parent forks.

use super::hand_off::{HandOff, NotHandedOff, until_closed};
use std::io::{self, Write};
use tokio::net::UnixStream;
use tokio::process::Child;

/// A shim that waits at its gate, a pipe. No other process has the end that opens it: the shim ends if this is dropped,
/// or the agent dies, before the gate is open.
pub struct GatedShim {
    pub(super) shim: StartedShim,
    pub(super) opener: io::PipeWriter,
}

/// A shim that is being started.
pub(super) enum StartedShim {
    /// A child of this process.
    Child(Child),
    /// A child of the warm parent, which becomes the shim.
    Forked(HandOff),
}

/// A shim whose gate is open.
pub(super) enum RunningShim {
    /// A child of this process.
    Child(Child),
    /// A child of the warm parent. It keeps the other end of this socket open until it ends.
    Forked(UnixStream),
}

impl RunningShim {
    /// Waits until the shim has ended. Its exit status is irrelevant: its outcome file counts.
    pub(super) async fn wait(&mut self) {
        match self {
            RunningShim::Child(child) => drop(child.wait().await),
            RunningShim::Forked(socket) => until_closed(socket).await,
        }
    }
}

impl GatedShim {
    /// Lets the hook run. Must not be called before the start of the run is stored.
    ///
    /// # Errors
    /// If the warm parent has not handed the run over. The gate is closed then, and the hook has not run.
    pub(super) async fn open_gate(mut self) -> Result<RunningShim, NotHandedOff> {
        let shim = match self.shim {
            StartedShim::Child(child) => RunningShim::Child(child),
            StartedShim::Forked(hand_off) => RunningShim::Forked(hand_off.end().await?),
        };
        // if the shim has ended, the write fails, and the run is found without an outcome
        self.opener.write_all(b"\n").ok();
        Ok(shim)
    }

    /// Waits for the shim to end without running the hook.
    ///
    /// # Errors
    /// If the warm parent has not handed the run over.
    pub(super) async fn close_gate(self) -> Result<(), NotHandedOff> {
        drop(self.opener);
        match self.shim {
            StartedShim::Child(mut child) => drop(child.wait().await),
            StartedShim::Forked(hand_off) => until_closed(&hand_off.end().await?).await,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand_off::ShimFiles;
    use super::*;
    use std::io::Read;
    use std::os::unix::net;

    /// A run that is being handed over: the hand-off, the other end of its socket, and both ends of the gate.
    fn waiting() -> (HandOff, net::UnixStream, io::PipeWriter, io::PipeReader) {
        let (socket, other_end) = net::UnixStream::pair().expect("sockets");
        socket.set_nonblocking(true).expect("it is ours");
        let socket = UnixStream::from_std(socket).expect("a socket");
        let (gate, opener) = io::pipe().expect("a pipe");
        let duplicate = gate.try_clone().expect("a pipe");
        let lock = tempfile::tempfile().expect("a file");
        (HandOff::start(socket, ShimFiles { gate, lock }), other_end, opener, duplicate)
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_opened_after_all_reports_in_any_order() {
        for reports in [b"fhs", b"fsh", b"hfs"] {
            let (hand_off, mut forked, opener, mut gate) = waiting();
            forked.write_all(reports).expect("it is open");
            let gated = GatedShim { shim: StartedShim::Forked(hand_off), opener };
            let mut shim = gated.open_gate().await.expect("it is handed over");
            let mut opened = [0];
            assert_eq!(gate.read(&mut opened).expect("it is open"), 1);
            drop(forked);
            shim.wait().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_stays_closed_without_one_of_the_reports() {
        for (reports, closes) in
            [("", false), ("fh", false), ("fs", false), ("hhh", false), ("", true), ("fh", true)]
        {
            let (hand_off, mut forked, opener, mut gate) = waiting();
            forked.write_all(reports.as_bytes()).expect("it is open");
            let forked = (!closes).then_some(forked);
            let gated = GatedShim { shim: StartedShim::Forked(hand_off), opener };
            let failed = gated.open_gate().await.err().expect("a report is missing");
            assert_eq!(failed.has_ended, closes, "{reports}");
            assert_eq!(gate.read(&mut [0]).expect("it is closed"), 0, "{reports}");
            drop(forked);
        }
    }

    /// The agent starts another operation instead: what was forked must not keep the hook lock.
    #[tokio::test(start_paused = true)]
    async fn a_hand_off_that_is_dropped_closes_its_files() {
        let (hand_off, mut forked, mut opener, gate) = waiting();
        tokio::task::yield_now().await;
        drop((hand_off, gate));
        tokio::task::yield_now().await;
        assert_eq!(forked.read(&mut [0]).expect("it is closed"), 0);
        assert_eq!(opener.write(b"\n").expect_err("it is closed").kind(), io::ErrorKind::BrokenPipe);
    }
}
