//! A recorded run once more, offline: `pintle-agent replay`.
//!
//! The program of the charm runs in a copy of the charm's folder, with the recorded context, behind a tool socket of its
//! own. Its calls are answered from the context and from the recorded answers (`recorded_answers`), and compared with the
//! recorded ones. Nothing of the unit changes: neither its folder nor its locks are used, and no request leaves the host.
//! What the program itself does to the host, it does again.

use super::changes::Changes;
use super::differences::{ComparedCall, Difference, differences, is_other_order};
use super::page::Page;
use super::recorded_answers::RecordedAnswers;
use super::recorded_run::{RecordedRun, RunEnd, unit_folder};
use super::scratch::{Scratch, ShownPaths};
use super::show::{in_file, write_output};
use crate::folder::UnitFolder;
use crate::hook_process::CharmRunner;
use crate::hook_process::run_files::read_output;
use crate::hook_session::{CALLS, CallsLine};
use crate::installed_programs::HOOK_PATH;
use crate::ports::CharmHost;
use crate::tool_socket::{self, ContextState};
use crate::{config, juju_paths};
use anyhow::{Context, Result, bail};
use hook_client::shim;
use state::terms::run_lock::RunLock;
use state::unit::environment::MachineFacts;
use state::unit::local::Run;
use state::unit::outcome::{HookResult, RunExit};
use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code if the replayed run differs from the recorded one.
const DIFFERENT: u8 = 1;

/// The time after which a replayed run is ended by default: most hooks take seconds, the installation of packages minutes.
pub const REPLAY_TIMEOUT: Duration = Duration::from_secs(300);

/// How a run is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// The time after which it is ended.
    pub timeout: Duration,
    /// Whether the copy of the charm's folder is kept, and the folder of the replayed run with it.
    pub keep: bool,
}

/// Why a replay was ended before its program had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    TimedOut,
    /// By a signal: Ctrl-C.
    Interrupted,
}

/// Runs the program of the charm of the run with this number once more. Returns what differs, as text, and the exit code:
/// 0 if nothing does.
///
/// # Errors
/// If there is no such run, it has not ended, or it cannot be replayed.
pub async fn replay(dir: &Path, number: u64, options: ReplayOptions) -> Result<(String, ExitCode)> {
    let unit = unit_folder(&dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()))?;
    let run = RecordedRun::read(&unit, number)?;
    if run.end == RunEnd::Running {
        bail!("cannot replay run {number}: it still runs");
    }
    if run.calls.is_none() {
        bail!("cannot replay run {number}: its calls cannot be read");
    }
    if run.file.context.trigger.runs_on_machine() {
        bail!("cannot replay run {number}: its commands ran outside of the context of the unit");
    }
    let scratch = Scratch::copy(&unit, options.keep).await?;
    let answers = RecordedAnswers::new(&run.file.context.secrets, run.lines(), unit.root().to_path_buf());
    let (exit, stopped) = execute(&unit, &run, &scratch, options.timeout, &answers).await?;
    let replayed = RecordedRun::read(&scratch.unit, number).ok();
    let replayed = Replayed { run: replayed.as_ref(), exit, stopped, options, answers: &answers };
    Ok(report(&unit, &run, &scratch, replayed))
}

async fn execute(
    unit: &UnitFolder,
    recorded: &RecordedRun,
    scratch: &Scratch,
    timeout: Duration,
    answers: &RecordedAnswers,
) -> Result<(RunExit, Option<Stopped>)> {
    let mut context = recorded.file.context.clone();
    context.id = format!("{}-replay-{:032x}", context.unit, host::random::random_u128());
    let (context_state, seen) = watch::channel(ContextState::Closed);
    let socket = scratch.socket();
    let calls = tool_socket::listen(&socket, seen)
        .with_context(|| format!("cannot listen at {}", socket.display()))?;
    // the folder may be a copy without its configuration
    let config = config::read(unit.root()).ok();
    let facts = MachineFacts {
        charm_dir: scratch.unit.charm().display().to_string(),
        tools_dir: scratch.unit.tools().display().to_string(),
        socket: socket.display().to_string(),
        machine: config.as_ref().map(|config| config.machine.clone()).unwrap_or_default(),
        api_addresses: config.map(|config| config.controllers).unwrap_or_default(),
        version: api::JUJU_VERSION.to_owned(),
        path: HOOK_PATH.to_owned(),
        ..MachineFacts::default()
    };
    let charms = CharmRunner::new(scratch.unit.clone(), facts, calls.tool_calls, context_state);
    let run = Run {
        position: recorded.file.position,
        ..Run::new(recorded.number, recorded.file.operation.clone(), recorded.file.reason.clone())
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let has_ended = Cell::new(false);
    // the hook lock of the copy: that of the unit is not taken
    let _lock = charms.lock(&RunLock::Unit).await;
    let running = async {
        let result: HookResult = charms.run(&run, context, None, answers).await;
        has_ended.set(true);
        result.exit
    };
    let stopping = async {
        let stopped = tokio::select! {
            () = tokio::time::sleep(timeout) => Stopped::TimedOut,
            _ = interrupt.recv() => Stopped::Interrupted,
            _ = terminate.recv() => Stopped::Interrupted,
        };
        charms.stop(&run, &has_ended).await;
        stopped
    };
    let (mut running, mut stopping) = (std::pin::pin!(running), std::pin::pin!(stopping));
    tokio::select! {
        biased;
        exit = &mut running => Ok((exit, None)),
        stopped = &mut stopping => Ok((running.await, Some(stopped))),
    }
}

/// The outcome of a replay.
struct Replayed<'a> {
    /// Its record. None if its program was not started.
    run: Option<&'a RecordedRun>,
    exit: RunExit,
    stopped: Option<Stopped>,
    options: ReplayOptions,
    answers: &'a RecordedAnswers,
}

fn report(
    unit: &UnitFolder,
    recorded: &RecordedRun,
    scratch: &Scratch,
    replayed: Replayed<'_>,
) -> (String, ExitCode) {
    let context = &recorded.file.context;
    let paths = ShownPaths::new(&scratch.unit, &juju_paths::shown_folder(unit));
    let path = |text: &str| paths.replace(text);
    // what is left out of the page is in the folder of the replayed run, which exists only if it is kept
    let everything = |name: &str| match replayed.run.filter(|_| replayed.options.keep) {
        Some(run) => in_file(&run.folder.join(name)),
        None => "kept by pintle replay --keep".to_owned(),
    };
    let lines: &[CallsLine] = replayed.run.map_or(&[], RecordedRun::lines);

    let mut page = Page::default();
    page.head(&format!(
        "{} run {}: {} (-: recorded, +: replayed)",
        context.unit,
        recorded.number,
        recorded.operation()
    ));
    let calls = (ComparedCall::all(recorded.lines(), str::to_owned), ComparedCall::all(lines, path));
    let different_calls = differences(&calls.0, &calls.1);
    match different_calls.is_empty() {
        true => page.line(0, &format!("the same {} calls", calls.0.len())),
        false => page.line(0, &format!("{} calls recorded, {} replayed", calls.0.len(), calls.1.len())),
    }
    different_calls.iter().for_each(|difference| page.line(1, &line(difference, ComparedCall::text)));
    page.end_section(&everything(CALLS));

    let of = |lines| Changes::of(context, lines).lines(context);
    let changes = (of(recorded.lines()), of(lines).iter().map(|line| path(line)).collect::<Vec<_>>());
    let different_changes = differences(&changes.0, &changes.1);
    match different_changes.is_empty() {
        true => page.line(0, "the same changes"),
        false => page.line(0, "other changes"),
    }
    different_changes.iter().for_each(|difference| page.line(1, &line(difference, String::clone)));
    page.end_section(&everything(CALLS));

    let end = RunEnd::Exited(replayed.exit.clone());
    let is_same_end = end == recorded.end && replayed.stopped.is_none();
    match (replayed.stopped, is_same_end) {
        (Some(Stopped::TimedOut), _) => {
            page.line(0, &format!("it was ended after {} s", replayed.options.timeout.as_secs()));
        }
        (Some(Stopped::Interrupted), _) => page.line(0, "it was interrupted"),
        (None, true) => page.line(0, &format!("the same end: {}", end.text())),
        (None, false) => {
            page.line(0, "another end");
            page.line(1, &format!("- {}", recorded.end.text()));
            page.line(1, &format!("+ {}", end.text()));
        }
    }
    if let Some(run) = replayed.run.filter(|_| replayed.exit != RunExit::Code(0)) {
        let text = read_output(&run.folder.join(shim::OUTPUT));
        let text: Vec<String> = String::from_utf8_lossy(&text).lines().map(path).collect();
        page.head("What the replayed run printed");
        match text.is_empty() {
            true => page.line(0, "nothing"),
            false => write_output(&mut page, &text, &everything(shim::OUTPUT)),
        }
    }
    let missing = replayed.answers.missing();
    if !missing.is_empty() {
        page.head(
            "What the replayed run requested and the recorded run had not read, so that it failed here",
        );
        missing.iter().for_each(|what| page.line(0, what));
        page.end_section(&everything(CALLS));
    }
    let is_other_order = is_other_order(&calls.0, &calls.1);
    let is_different = !different_calls.is_empty() || !different_changes.is_empty() || !is_same_end;
    let has_read_placeholder = is_different && replayed.answers.has_read_placeholder();
    if is_other_order || has_read_placeholder {
        page.head("What can differ although the charm does the same");
    }
    if is_other_order {
        page.line(0, "the calls are the same in another order: a set of Python, such as relation.units of ops, has another order in each process");
    }
    if has_read_placeholder {
        page.line(0, "contents of secrets are placeholders: what the hook computes from one differs");
    }
    if replayed.options.keep {
        page.head(&format!("Kept: {}", scratch.root.display()));
    }
    let is_same = different_calls.is_empty() && different_changes.is_empty() && is_same_end;
    (page.into_text(), if is_same { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

fn line<T>(difference: &Difference<'_, T>, text: impl Fn(&T) -> String) -> String {
    match difference {
        Difference::Recorded(item) => format!("- {}", text(item)),
        Difference::Replayed(item) => format!("+ {}", text(item)),
    }
}
