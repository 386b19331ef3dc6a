//! A supervised child process: restarted when it exits, with a bounded back-off.
//!
//! Used by `supervise` for the controller, and by the `local` provider for machine agents.

use host::backoff::Backoff;
use host::process::Process;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::task::JoinHandle;

/// Delay before a restart. 100 ms doubled 8 times is 25.6 s; after that there is an attempt every 30 s.
const BACKOFF: Backoff = Backoff::new(100, 30_000);
/// A program that ran this long has recovered: its back-off starts again at the first delay.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(60);

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The file to which its stdout and stderr are appended.
    pub log: PathBuf,
    /// The pid file to write; `None` if the program writes it itself.
    pub pid_file: Option<PathBuf>,
}

/// A process that is restarted when it exits, until it is released.
pub struct SupervisedProcess {
    current: Arc<Mutex<Option<Process>>>,
    task: JoinHandle<()>,
}

impl SupervisedProcess {
    /// Starts the program.
    pub fn start(program: Program) -> SupervisedProcess {
        let current = Arc::new(Mutex::new(None));
        SupervisedProcess { task: tokio::spawn(keep_running(program, current.clone())), current }
    }

    /// Ends supervision: the process is no longer restarted. Returns the running process, which the caller must stop.
    pub fn release(self) -> Option<Process> {
        self.task.abort();
        *self.current.lock().expect("no holder panics")
    }
}

async fn keep_running(program: Program, current: Arc<Mutex<Option<Process>>>) {
    let mut backoff = BACKOFF;
    loop {
        let started = Instant::now();
        let reason = match start(&program) {
            Err(error) => format!("cannot start: {error}"),
            Ok(mut child) => {
                let process = child.id().and_then(|pid| Process::find(pid as i32));
                *current.lock().expect("no holder panics") = process;
                if let (Some(file), Some(process)) = (&program.pid_file, process)
                    && let Err(error) = process.write(file)
                {
                    eprintln!("cannot write {}: {error}", file.display());
                }
                let ended = child.wait().await;
                *current.lock().expect("no holder panics") = None;
                ended.map_or_else(|error| error.to_string(), |status| status.to_string())
            }
        };
        if started.elapsed() >= BACKOFF_RESET_AFTER {
            backoff.reset();
        }
        let delay = Duration::from_millis(backoff.delay_ms());
        eprintln!(
            "{}: {reason}; restarting in {delay:?}, see {}",
            program.path.display(),
            program.log.display()
        );
        tokio::time::sleep(delay).await;
        backoff.increase();
    }
}

fn start(program: &Program) -> io::Result<tokio::process::Child> {
    let log = open_log(&program.log)?;
    Command::new(&program.path)
        .args(&program.arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Opens a log file for appending; only its owner can read it.
pub fn open_log(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::process::stop;

    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_exits_is_restarted_unless_it_was_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid_file = folder.path().join("pid");
        let daemon = SupervisedProcess::start(Program {
            path: "sleep".into(),
            arguments: vec!["1000".to_owned()],
            log: folder.path().join("log"),
            pid_file: Some(pid_file.clone()),
        });
        let next_process = async |old: Option<Process>| loop {
            match Process::read_alive(&pid_file) {
                Some(process) if Some(process) != old => return process,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let first = next_process(None).await;
        stop(&[first], Duration::from_secs(5)).await;
        let second = next_process(Some(first)).await;
        assert_eq!(daemon.release(), Some(second));
        assert_eq!(stop(&[second], Duration::from_secs(5)).await, []);
        tokio::time::sleep(Duration::from_millis(BACKOFF.delay_ms() * 3)).await; // three times the delay of a restart
        assert_eq!(Process::read_alive(&pid_file), None);
    }
}
