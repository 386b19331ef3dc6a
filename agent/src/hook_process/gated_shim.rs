//! A shim that waits at its gate, and the shim that runs: a child of this process, or one that a warm parent has forked.

use std::fs::File;
use std::io::{self, Write};
use tokio::net::unix::pipe;

/// A shim that waits at its gate, a pipe. No other process has the end that opens it: the shim ends if this is dropped,
/// or the agent dies, before the gate is open.
pub struct GatedShim {
    pub(super) shim: RunningShim,
    pub(super) opener: io::PipeWriter,
}

/// A shim that has been started.
pub(super) enum RunningShim {
    /// A child of this process.
    Child(tokio::process::Child),
    /// A child of the warm parent. It keeps the other end of this pipe open until it ends.
    Forked(pipe::Receiver),
}

impl RunningShim {
    /// A shim that has the other end of this pipe.
    ///
    /// # Errors
    /// If the pipe cannot be polled.
    pub(super) fn forked(end: io::PipeReader) -> io::Result<RunningShim> {
        let file = File::from(std::os::fd::OwnedFd::from(end));
        Ok(RunningShim::Forked(pipe::Receiver::from_file(file)?))
    }

    /// Waits until the shim has ended. Its exit status is irrelevant: its outcome file counts.
    pub(super) async fn wait(&mut self) {
        match self {
            RunningShim::Child(child) => drop(child.wait().await),
            RunningShim::Forked(end) => {
                // nothing is written into it; an error of the pipe means that nobody has it open either
                let mut byte = [0];
                while end.readable().await.is_ok()
                    && end.try_read(&mut byte).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
                {
                }
            }
        }
    }
}

impl GatedShim {
    /// Lets the hook run. Must not be called before the start of the run is stored.
    pub(super) fn open_gate(mut self) -> RunningShim {
        // if the shim has ended, the write fails, and the run is found without an outcome
        self.opener.write_all(b"\n").ok();
        self.shim
    }

    /// Waits for the shim to end without running the hook.
    pub(super) async fn close_gate(mut self) {
        drop(self.opener);
        self.shim.wait().await;
    }
}
