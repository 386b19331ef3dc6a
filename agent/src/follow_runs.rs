//! Follows the runs of the units of one application on this host, and prints them while they run: for `pintle dev`.
//!
//! Only reads: the folders of the runs, and the stored state and `agent.yaml` of each unit. The output of a run is
//! printed once its outcome is part of the stored state of the unit, because the agent masks the contents of secrets
//! before that (`hook_process::finish`); tool calls are printed at once, as they are masked in `calls.yaml`.
//!
//! Called by `arguments`. The folders are polled: a run lasts longer than an interval, and no inotify instance is used.

use crate::config;
use crate::folder::UnitFolder;
use crate::hook_process::run_files;
use crate::hook_session::{ShownCall, lines_after};
use crate::journal;
use anyhow::Result;
use api::machine_folder::AGENTS_DIR;
use api::text::start_reason;
use host::escape::one_line;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::Operation;
use state::terms::start_reason::StartReason;
use state::unit::local::{Local, Step};
use state::unit::outcome::RunExit;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The interval of reading the folders: a start is shown within a few hundredths of a second.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most polls for which the start of a run is held back until the end of the run before is stored: a second. The
/// agent stores the end of a run before it starts the next one, so this limit is reached only if the state cannot be
/// read.
const POLLS_HELD_MAX: u32 = 50;
/// The most lines of the output of a run that are shown: a screen shows them beside the calls.
const OUTPUT_LINES_MAX: usize = 20;

/// Whose runs are followed.
pub struct FollowedRuns {
    /// The folder of the folders of the machines.
    pub machines: PathBuf,
    /// The model.
    pub model: Uuid,
    /// The application.
    pub application: String,
    /// The time from which runs are followed: one that finished before is not shown.
    pub since_ms: u64,
}

/// What happened in a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// It has started.
    Started {
        /// The number of the run.
        run: u64,
        /// What runs.
        operation: Operation,
        /// Why.
        reason: StartReason,
    },
    /// A tool was called.
    Call(ShownCall),
    /// It printed these lines, after `omitted` others.
    Output {
        /// The last lines.
        lines: Vec<String>,
        /// The number of lines before them.
        omitted: usize,
    },
    /// It has finished.
    Finished {
        /// What ran.
        operation: Operation,
        /// How it has ended.
        exit: RunExit,
        /// How long it took.
        duration: Duration,
        /// The folder of the run.
        folder: PathBuf,
    },
}

/// The text of an event of a unit, with the newline of each line.
pub fn text(unit: &UnitName, event: &RunEvent) -> String {
    let mut text = String::new();
    match event {
        RunEvent::Started { run, operation, reason } => {
            writeln!(text, "{unit} {operation} (run {run}): {}", start_reason::describe(reason))
        }
        RunEvent::Call(ShownCall { command, answer, code }) => {
            let answer = if answer.is_empty() { String::new() } else { format!(" -> {answer}") };
            let code = if *code == 0 { String::new() } else { format!(" (exit code {code})") };
            writeln!(text, "{unit}   {command}{answer}{code}")
        }
        RunEvent::Output { lines, omitted } => {
            if *omitted > 0 {
                writeln!(text, "{unit}   | ({omitted} lines before)").expect("a text grows");
            }
            lines.iter().try_for_each(|line| writeln!(text, "{unit}   | {}", one_line(line)))
        }
        RunEvent::Finished { operation, exit, duration, folder } => {
            let seconds = duration.as_secs_f64();
            let end = crate::unit_agent::run_log::outcome(exit);
            match exit {
                RunExit::Code(0) => writeln!(text, "{unit} {operation}: ok after {seconds:.2} s"),
                RunExit::Interrupted => writeln!(text, "{unit} {operation}: interrupted"),
                _ => writeln!(
                    text,
                    "{unit} {operation}: FAILED after {seconds:.2} s: {end}; its files are in {}",
                    folder.display()
                ),
            }
        }
    }
    .expect("a text grows");
    text
}

/// A run that has started and whose end was not shown.
struct OpenRun {
    folder: PathBuf,
    operation: Operation,
    started: SystemTime,
    /// The length of the calls that were shown.
    calls_bytes: u64,
}

/// The runs of one unit.
pub struct UnitRuns {
    folder: UnitFolder,
    since: SystemTime,
    open: BTreeMap<u64, OpenRun>,
    /// The newest run that was looked at.
    last: u64,
    /// How often in a row the start of a run was not shown, because the end of the one before was not stored.
    polls_held: u32,
}

impl UnitRuns {
    /// The runs of the unit in this folder, without those that finished before `since`.
    pub fn new(folder: UnitFolder, since: SystemTime) -> UnitRuns {
        UnitRuns { folder, since, open: BTreeMap::new(), last: 0, polls_held: 0 }
    }

    /// What has happened since the last call.
    pub async fn poll(&mut self) -> Vec<RunEvent> {
        let mut events = Vec::new();
        let folders = self.new_folders();
        let newest = folders.last().map(|(number, _)| *number);
        for (number, folder) in folders {
            let Some((file, started)) = run_files::read_run_file(&folder).zip(run_files::started(&folder))
            else {
                if Some(number) == newest {
                    // the agent is writing it
                    break;
                }
                // a later run has started: a power failure has left this file unreadable
                self.last = number;
                continue;
            };
            let before = std::mem::replace(&mut self.last, number);
            if run_files::finished_at(&folder).is_some_and(|finished_at| finished_at < self.since) {
                continue;
            }
            // a unit runs one operation after the other: the end of a run is shown before the start of the next one
            events.extend(self.progress().await);
            if !self.open.is_empty() && self.polls_held < POLLS_HELD_MAX {
                self.polls_held += 1;
                self.last = before;
                return events;
            }
            self.polls_held = 0;
            let (operation, reason) = (file.operation().clone(), file.reason().clone());
            events.push(RunEvent::Started { run: number, operation: operation.clone(), reason });
            self.open.insert(number, OpenRun { folder, operation, started, calls_bytes: 0 });
        }
        events.extend(self.progress().await);
        events
    }

    /// The folders of the runs after the last one, in order.
    fn new_folders(&self) -> Vec<(u64, PathBuf)> {
        let mut folders = self.folder.kept_runs();
        folders.retain(|(number, _)| *number > self.last);
        folders
    }

    /// The calls of the open runs, and the ends of those that have finished.
    async fn progress(&mut self) -> Vec<RunEvent> {
        let (mut events, mut finished) = (Vec::new(), Vec::new());
        for (number, run) in &mut self.open {
            let outcome = run_files::read_outcome(&run.folder);
            let (calls, bytes) = lines_after(&run.folder, run.calls_bytes);
            run.calls_bytes = bytes;
            events.extend(calls.iter().filter_map(ShownCall::of).map(RunEvent::Call));
            if !run.folder.exists() {
                // the unit was removed
                finished.push(*number);
                continue;
            }
            // without an outcome, only a later run shows that this one has finished
            if (outcome.is_none() && *number == self.last) || !is_stored(&self.folder, *number).await {
                continue;
            }
            let (lines, omitted) = run_files::last_output(&run.folder, OUTPUT_LINES_MAX);
            if !lines.is_empty() {
                events.push(RunEvent::Output { lines, omitted });
            }
            let end =
                run_files::finished_at(&run.folder).and_then(|end| end.duration_since(run.started).ok());
            events.push(RunEvent::Finished {
                operation: run.operation.clone(),
                exit: outcome.unwrap_or(RunExit::Interrupted),
                duration: end.unwrap_or_default(),
                folder: run.folder.clone(),
            });
            finished.push(*number);
        }
        self.open.retain(|number, _| !finished.contains(number));
        events
    }
}

/// Whether the stored state of the unit contains the end of this run.
async fn is_stored(folder: &UnitFolder, run: u64) -> bool {
    let stored = journal::read_only_load(folder).await;
    stored.ok().flatten().is_some_and(|local| has_finished(&local, run))
}

fn has_finished(local: &Local, run: u64) -> bool {
    local.run >= run && !matches!(&local.step, Step::Started(running) if running.number == run)
}

/// Prints what happens until nothing reads stdout any more, for example because the process that started this one has
/// ended, or until stdout cannot be written. Never fails.
pub async fn run(followed: FollowedRuns) -> Result<ExitCode> {
    let mut units = BTreeMap::<UnitName, UnitRuns>::new();
    while !is_stdout_closed() {
        for (name, folder) in unit_folders(&followed) {
            if !units.contains_key(&name)
                && config::read(folder.root()).is_ok_and(|c| c.model == followed.model)
            {
                let since = UNIX_EPOCH + Duration::from_millis(followed.since_ms);
                units.insert(name, UnitRuns::new(folder, since));
            }
        }
        let mut lines = String::new();
        for (name, unit) in &mut units {
            for event in unit.poll().await {
                lines += &text(name, &event);
            }
        }
        if !lines.is_empty()
            && io::stdout().write_all(lines.as_bytes()).and_then(|()| io::stdout().flush()).is_err()
        {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the pipe that is stdout has no reader, which poll(2) reports without being asked for an event.
fn is_stdout_closed() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// The folders of the units of the application, on all machines.
fn unit_folders(followed: &FollowedRuns) -> Vec<(UnitName, UnitFolder)> {
    let prefix = format!("unit-{}-", followed.application);
    let folders = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for machine in folders(&followed.machines) {
        for unit in folders(&machine.path().join(AGENTS_DIR)) {
            let tag = unit.file_name().to_string_lossy().into_owned();
            let number = tag.strip_prefix(&prefix).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                found.push((UnitName::new(&followed.application, number), UnitFolder::new(unit.path())));
            }
        }
    }
    found
}
