//! A supervised child process: restarted when it exits, with a bounded back-off ([`host::restart`]).
//!
//! A refusal to serve at the first start ([`EXIT_REFUSED`]) is reported ([`SupervisedProcess::refused`]), so that the
//! caller can end with the reason at once. After a refusal at a later start the process is restarted as after any other
//! exit, because agents keep their units running meanwhile. How the process ended is written to a file, in which commands
//! find why it does not serve ([`ProcessExits`]).
//!
//! Used by `supervise` for the controller, and by the `local` provider for machine agents.

use super::process_exits::ProcessExits;
use api::text::fault;
use host::file::{create_private_folder_in, exists};
use host::open_folder::OpenFolder;
use host::process::Process;
use host::restart::{EXIT_REFUSED, EndedBy, RECOVERED_AFTER_MS, Restarts};
use host::{log_file, log_tail};
use state::terms::health::ProcessEnd;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// First delay before the restart of a program that failed. Doubled 8 times it is 25.6 s; after that there is an
/// attempt every 30 s.
const FIRST_DELAY_MS: u64 = 100;
/// Longest delay.
const DELAY_MAX_MS: u64 = 30_000;

/// A program to start.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// An argument that is added to them as long as this file exists.
    pub argument_while: Option<(PathBuf, &'static str)>,
    /// The folder that it works in, if it must not be started once this is not in place any more.
    pub folder: Option<Arc<OpenFolder>>,
    /// The folder that is its working folder; that of the supervisor if none.
    pub working_folder: Option<PathBuf>,
    /// The variables that it does not inherit.
    pub without_variables: Vec<OsString>,
    /// The file to which its stdout and stderr are appended.
    pub log: PathBuf,
    /// The pid file to write; `None` if the program writes it itself.
    pub pid_file: Option<PathBuf>,
    /// The file of its [`ProcessExits`], if they are recorded.
    pub exits_file: Option<PathBuf>,
}

/// A process that is restarted when it exits, until it is released.
pub struct SupervisedProcess {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the task of a [`SupervisedProcess`] shares with its owner.
#[derive(Default)]
struct Shared {
    current: Mutex<Option<Process>>,
    /// How the program ended, until it has run for long.
    exits: Mutex<Option<ProcessExits>>,
    /// Notified when `exits` has changed: the process has ended, or has run for long.
    changed: Arc<Notify>,
    refused: Notify,
    retry: Notify,
}

impl SupervisedProcess {
    /// Starts the program.
    pub fn start(program: Program) -> SupervisedProcess {
        SupervisedProcess::start_observed(program, Arc::default())
    }

    /// Starts the program. `changed` is notified each time when [`SupervisedProcess::exits`] has changed.
    pub fn start_observed(program: Program, changed: Arc<Notify>) -> SupervisedProcess {
        let shared = Arc::new(Shared { changed, ..Shared::default() });
        let task = tokio::spawn(keep_running(program, shared.clone()));
        SupervisedProcess { shared, task }
    }

    /// How the program ended the last times, without a longer run between them; none if it has not ended, or runs for
    /// long.
    pub fn exits(&self) -> Option<ProcessExits> {
        self.shared.exits.lock().expect("no holder panics").clone()
    }

    /// Starts the program at once if it waits for its next start, and begins with the shortest delay again. Does nothing
    /// while it runs.
    pub fn retry_now(&self) {
        self.shared.retry.notify_waiters();
    }

    /// Waits until the program has refused to serve at its first start.
    pub async fn refused(&self) {
        self.shared.refused.notified().await;
    }

    /// Ends supervision: the process is no longer restarted. Returns the running process, which the caller must stop.
    pub fn release(self) -> Option<Process> {
        self.task.abort();
        *self.shared.current.lock().expect("no holder panics")
    }
}

async fn keep_running(program: Program, shared: Arc<Shared>) {
    let (mut is_first, mut count) = (true, 0);
    let mut restarts = Restarts::new(FIRST_DELAY_MS, DELAY_MAX_MS);
    loop {
        let (started, log_bytes) = (Instant::now(), log_tail::bytes(&program.log));
        let (reason, end, error) = match start(&program) {
            Err(error) => {
                let error =
                    format!("cannot start {}: {}", program.path.display(), fault::not_started(&error));
                (error.clone(), ProcessEnd::NotStarted, Some(error))
            }
            Ok(mut child) => {
                let process = child.id().and_then(|pid| Process::find(pid as i32));
                *shared.current.lock().expect("no holder panics") = process;
                if let (Some(file), Some(process)) = (&program.pid_file, process)
                    && let Err(error) = process.write(file)
                {
                    tracing::warn!("cannot write {}: {error}", file.display());
                }
                let ended = wait(&mut child, &shared).await;
                *shared.current.lock().expect("no holder panics") = None;
                let (reason, end) = match ended {
                    Ok(status) => (status.to_string(), process_end(status)),
                    Err(error) => (error.to_string(), ProcessEnd::Unobserved),
                };
                (reason, end, log_tail::error_lines(&program.log, log_bytes))
            }
        };
        let ran_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        count = if ran_ms > RECOVERED_AFTER_MS { 1 } else { count + 1 };
        let exits = ProcessExits { end, error, count };
        if let Some(file) = &program.exits_file
            && let Err(error) = exits.write(file)
        {
            tracing::warn!("cannot write {}: {error}", file.display());
        }
        *shared.exits.lock().expect("no holder panics") = Some(exits);
        shared.changed.notify_one();
        if is_first && end == ProcessEnd::Code(EXIT_REFUSED.into()) {
            shared.refused.notify_one();
        }
        is_first = false;
        let delay = Duration::from_millis(restarts.delay_ms(ran_ms, ended_by(end)));
        tracing::warn!(
            "{}: {reason}; restarting in {delay:?}, see {}",
            program.path.display(),
            program.log.display()
        );
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = shared.retry.notified() => {
                (restarts, count) = (Restarts::new(FIRST_DELAY_MS, DELAY_MAX_MS), 0);
            }
        }
    }
}

/// Waits until the program ends. One that has run for long has recovered from its earlier ends.
async fn wait(child: &mut tokio::process::Child, shared: &Shared) -> io::Result<ExitStatus> {
    let recovered = tokio::time::sleep(Duration::from_millis(RECOVERED_AFTER_MS));
    tokio::select! {
        biased;
        ended = child.wait() => return ended,
        () = recovered => {}
    }
    if shared.exits.lock().expect("no holder panics").take().is_some() {
        shared.changed.notify_one();
    }
    child.wait().await
}

fn process_end(status: ExitStatus) -> ProcessEnd {
    let signal = status.signal().map(ProcessEnd::Signal);
    status.code().map(ProcessEnd::Code).or(signal).unwrap_or(ProcessEnd::Unobserved)
}

fn ended_by(end: ProcessEnd) -> EndedBy {
    match end {
        ProcessEnd::Signal(signal) => EndedBy::of_signal(Some(signal)),
        ProcessEnd::Code(_) | ProcessEnd::NotStarted | ProcessEnd::Unobserved => EndedBy::Itself,
    }
}

fn start(program: &Program) -> io::Result<tokio::process::Child> {
    if program.folder.as_ref().is_some_and(|folder| !folder.is_in_place()) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its folder was moved or deleted"));
    }
    if let Some((parent, name)) = program.log.parent().and_then(|it| it.parent().zip(it.file_name())) {
        // a person may delete the logs, or move the data folder
        create_private_folder_in(parent, name).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", parent.join(name).display()))
        })?;
    }
    // the folder is what a person must mend, not the program
    let log = log_file::open(&program.log).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open {}: {error}", program.log.display()))
    })?;
    let argument = match &program.argument_while {
        Some((file, argument)) if exists(file)? => Some(argument),
        Some(_) | None => None,
    };
    let mut command = Command::new(&program.path);
    if let Some(folder) = &program.working_folder {
        command.current_dir(folder);
    }
    for name in &program.without_variables {
        command.env_remove(name);
    }
    command
        .args(&program.arguments)
        .args(argument)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
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
            log: folder.path().join("logs/log"),
            pid_file: Some(pid_file.clone()),
            ..Program::default()
        });
        let next_process = async |old: Option<Process>| loop {
            match Process::read_alive(&pid_file) {
                Some(process) if Some(process) != old => return process,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let mut latest = next_process(None).await;
        std::fs::remove_dir_all(folder.path().join("logs")).expect("it was made");
        // with the delays of a program that fails, this would take 100 ms * (2^9 - 1) = 51 s
        let killing = Instant::now();
        for _ in 0..9 {
            stop(&[latest], Duration::from_secs(5)).await;
            latest = next_process(Some(latest)).await;
        }
        assert!(killing.elapsed() < Duration::from_secs(10), "{:?}", killing.elapsed());
        assert_eq!(daemon.release(), Some(latest));
        assert_eq!(stop(&[latest], Duration::from_secs(5)).await, []);
        tokio::time::sleep(Duration::from_millis(FIRST_DELAY_MS * 3)).await; // three times the delay of a restart
        assert_eq!(Process::read_alive(&pid_file), None);
    }

    /// The mark of a restored store is deleted once a controller has started with it: without this, every restart of
    /// the controller would start one more store generation.
    #[tokio::test(flavor = "current_thread")]
    async fn an_argument_is_added_as_long_as_its_file_exists_and_a_first_refusal_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("mark"), "").expect("written");
        let script = format!("echo \"$0\" >> {0}/runs; rm -f {0}/mark; exit 3", folder.path().display());
        let process = SupervisedProcess::start(Program {
            path: "sh".into(),
            arguments: vec!["-c".to_owned(), script],
            argument_while: Some((path("mark"), "--restored")),
            log: path("log"),
            ..Program::default()
        });
        process.refused().await;
        let ran = || std::fs::read_to_string(path("runs")).expect("it ran");
        assert_eq!(ran(), "--restored\n");
        while ran().lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.release();
        assert_eq!(ran().lines().nth(1), Some("sh"), "the file is gone");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn that_a_process_has_ended_and_that_it_has_recovered_is_notified() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let changed = Arc::new(Notify::new());
        let script = format!("test -e {0} && exec sleep 1000; touch {0}; exit 1", path("ended").display());
        let program = Program {
            path: "sh".into(),
            arguments: vec!["-c".to_owned(), script],
            log: path("log"),
            ..Program::default()
        };
        let process = SupervisedProcess::start_observed(program, changed.clone());
        changed.notified().await;
        assert_eq!(process.exits().map(|exits| (exits.end, exits.count)), Some((ProcessEnd::Code(1), 1)));
        let recovered =
            tokio::time::timeout(Duration::from_millis(2 * RECOVERED_AFTER_MS), changed.notified());
        recovered.await.expect("it is notified");
        assert_eq!(process.exits(), None);
        let process = process.release().expect("it runs");
        assert_eq!(stop(&[process], Duration::from_secs(5)).await, []);
    }

    /// 1. A process ends at each start, until its next start comes after 30 s. 2. An operator repairs the cause, and does
    ///    not wait for that start.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn how_a_process_ended_is_recorded_and_a_retry_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let process = SupervisedProcess::start(Program {
            path: "sh".into(),
            arguments: vec!["-c".to_owned(), "echo ERROR cannot serve; exit 1".to_owned()],
            log: path("log"),
            exits_file: Some(path("exits")),
            ..Program::default()
        });
        let count = || ProcessExits::read(&path("exits")).map_or(0, |exits| exits.count);
        while count() < 12 {
            tokio::time::sleep(Duration::from_millis(FIRST_DELAY_MS)).await;
        }
        let exits = ProcessExits::read(&path("exits")).expect("it ended");
        assert_eq!(exits.end, ProcessEnd::Code(1));
        assert_eq!(exits.error.as_deref(), Some("ERROR cannot serve"));
        let (before, retried) = (tokio::time::Instant::now(), path("log").metadata().expect("there").len());
        process.retry_now();
        while path("log").metadata().expect("there").len() == retried {
            tokio::task::yield_now().await;
        }
        assert!(before.elapsed() < Duration::from_millis(DELAY_MAX_MS) / 2, "{:?}", before.elapsed());
        while count() != 1 {
            tokio::task::yield_now().await;
        }
        process.release();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_error_of_a_start_names_the_log_that_cannot_be_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        std::fs::create_dir(&log).expect("a folder in the place of the log");
        let changed = Arc::new(Notify::new());
        let program =
            Program { path: "sh".into(), arguments: Vec::new(), log: log.clone(), ..Program::default() };
        let process = SupervisedProcess::start_observed(program, changed.clone());
        changed.notified().await;
        let exits = process.exits().expect("it was not started");
        assert_eq!(exits.end, ProcessEnd::NotStarted);
        let error = exits.error.expect("it is known");
        assert!(error.contains(&log.display().to_string()), "{error}");
        assert_eq!(process.release(), None);
    }
}
