//! Prints the hooks of an application while they run: what `pintle-agent follow-runs` reads from the folders of the
//! units.
//!
//! The formats of these files are known to the agent only, so its program reads them; that process ends with this one.

use crate::command_error::CommandError;
use crate::commands::supervise::program;
use crate::data_dir::DataDir;
use crate::output::Output;
use state::terms::names::Uuid;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process that reads. It is killed when this is dropped; the thread that prints ends at the end of the pipe, without
/// its remark.
pub struct RunDisplay {
    process: Child,
    is_dropped: Arc<AtomicBool>,
}

impl RunDisplay {
    /// Prints the runs of the application that have not ended before `since_ms`.
    ///
    /// # Errors
    /// If the program or the thread cannot be started.
    pub fn start(
        dir: &DataDir,
        model: Uuid,
        application: &str,
        since_ms: i64,
        output: Arc<Output>,
    ) -> Result<RunDisplay, CommandError> {
        let to_error =
            |error: std::io::Error| CommandError::new(format!("cannot start the display of hooks: {error}"));
        let mut process = Command::new(program("pintle-agent")?)
            .arg("follow-runs")
            .arg(dir.machines())
            .args(["--model", &model.to_string(), "--application", application])
            .args(["--since", &since_ms.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(to_error)?;
        let lines = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        let is_dropped = Arc::new(AtomicBool::new(false));
        let was_dropped = Arc::clone(&is_dropped);
        let print = move || {
            for line in lines.lines().map_while(Result::ok) {
                output.print(&(line + "\n")).ok(); // the command itself reports that it cannot print
            }
            if !was_dropped.load(Ordering::Relaxed) {
                output.print_remark("-- hooks are no longer shown: pintle-agent follow-runs has ended\n");
            }
        };
        // A thread of its own: a charm that is being packed must not delay the display.
        let started = std::thread::Builder::new().spawn(print).map_err(to_error);
        let display = RunDisplay { process, is_dropped };
        started.map(|_| display)
    }
}

impl Drop for RunDisplay {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        // fails only if it has ended
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
