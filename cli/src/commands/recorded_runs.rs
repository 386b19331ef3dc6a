//! `runs`, `show-run`, `replay`, `export-run` and `stop-hook`: the hook runs of a unit, as its machine has recorded them.
//!
//! The record is in the folder of the unit, which only its machine has. Each command runs the agent's program of the same
//! name in that machine, as `ssh` runs a command, and passes on its output and its exit code.

use crate::command_error::CommandError;
use crate::machine_access::{AccessArgs, MachineAccess, Target, find_unit};
use crate::render::StructuredFormat;
use crate::session::CommandSession;
use crate::times;
use api::machine_folder::{AGENT_SCRIPT, AGENTS_DIR, DATA_DIR};
use api::{GetStatus, UnitChoice, UserPort};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The unit of a command, and how its machine is reached.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The unit: web/0, or web/leader
    #[arg(value_name = "UNIT")]
    pub unit: UnitChoice,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(flatten)]
    pub record: RecordArgs,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `show-run`.
#[derive(Debug, Args)]
pub struct ShowRunArgs {
    #[command(flatten)]
    pub record: RecordArgs,
    /// The number of the run, as "pintle runs" lists it
    #[arg(value_name = "RUN")]
    pub run: u64,
    /// Output format; by default text
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub record: RecordArgs,
    /// The number of the run, as "pintle runs" lists it
    #[arg(value_name = "RUN")]
    pub run: u64,
    /// The longest time, after which the hook is ended
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = times::duration)]
    pub timeout: Duration,
    /// Keep the copy of the charm in which the hook runs, and name it
    #[arg(long)]
    pub keep: bool,
}

/// Arguments of `export-run`.
#[derive(Debug, Args)]
pub struct ExportRunArgs {
    #[command(flatten)]
    pub record: RecordArgs,
    /// The number of the run, as "pintle runs" lists it
    #[arg(value_name = "RUN")]
    pub run: u64,
}

/// Arguments of `stop-hook`.
#[derive(Debug, Args)]
pub struct StopHookArgs {
    #[command(flatten)]
    pub record: RecordArgs,
}

/// Lists the runs of a unit whose record is kept.
///
/// # Errors
/// If there is no such unit, or its machine does not run.
pub async fn list<A: UserPort>(args: &RunsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    run_agent(&args.record, "runs", &format_words(args.format), session).await
}

/// Shows one run.
///
/// # Errors
/// As [`list`], or if there is no such run.
pub async fn show<A: UserPort>(args: &ShowRunArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let words = [vec![args.run.to_string()], format_words(args.format)].concat();
    run_agent(&args.record, "show-run", &words, session).await
}

/// Runs a recorded hook again, offline.
///
/// # Errors
/// As [`show`].
pub async fn replay<A: UserPort>(args: &ReplayArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let seconds = args.timeout.as_secs().max(1).to_string();
    let mut words = vec![args.run.to_string(), "--timeout".to_owned(), seconds];
    words.extend(args.keep.then(|| "--keep".to_owned()));
    run_agent(&args.record, "replay", &words, session).await
}

/// Prints a run as a test.
///
/// # Errors
/// As [`show`], or if the charm cannot be tested so.
pub async fn export<A: UserPort>(
    args: &ExportRunArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    run_agent(&args.record, "export-run", &[args.run.to_string()], session).await
}

/// Ends the hook that a unit runs.
///
/// # Errors
/// As [`list`], or if no hook runs.
pub async fn stop<A: UserPort>(args: &StopHookArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    run_agent(&args.record, "stop-hook", &[], session).await
}

fn format_words(format: Option<StructuredFormat>) -> Vec<String> {
    let name = |format: StructuredFormat| format.to_possible_value().map(|value| value.get_name().to_owned());
    format.and_then(name).map_or_else(Vec::new, |name| vec!["--format".to_owned(), name])
}

/// The folder of a machine, by the path that its programs use.
pub(crate) fn machine_folder(access: &MachineAccess) -> PathBuf {
    match access {
        MachineAccess::Folder(machine) => machine.clone(),
        MachineAccess::Container(_) | MachineAccess::Remote(..) => PathBuf::from(DATA_DIR),
    }
}

/// The command that runs the agent's program in a machine for a unit with this tag.
fn agent_command(access: &MachineAccess, verb: &str, tag: &str, words: &[String]) -> Command {
    let machine = machine_folder(access);
    let text = |path: PathBuf| path.display().to_string();
    let start = [text(machine.join(AGENT_SCRIPT)), verb.to_owned(), text(machine.join(AGENTS_DIR).join(tag))];
    let words = [&start[..], words].concat();
    match access {
        MachineAccess::Folder(_) | MachineAccess::Container(_) => access.command(&words),
        MachineAccess::Remote(..) => {
            // only root reads the folders of units there
            let line = host::shell::line(&words);
            let script = format!("if [ \"$(id -u)\" = 0 ]; then exec {line}; else exec sudo {line}; fi");
            access.shell(None, Some(&script))
        }
    }
}

async fn run_agent<A: UserPort>(
    args: &RecordArgs,
    verb: &str,
    words: &[String],
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let options = args.access.options()?;
    let status = session.api.handle(GetStatus).await?;
    let (unit, found) = find_unit(&args.unit, &status)?;
    let name = unit.to_string();
    let access = MachineAccess::find(&Target::new(&name), &options, &status, &session.dir)?;
    if let MachineAccess::Folder(machine) = &access
        && !machine.join(AGENTS_DIR).join(unit.tag()).is_dir()
    {
        return Err(CommandError::new(format!(
            "cannot read the runs of {name}: its machine has not deployed it"
        ))
        .hint(format!("see: pintle why {name}")));
    }
    let mut command = agent_command(&access, verb, &unit.tag(), words);
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| CommandError::new(format!("cannot run {program}: {error}")))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() || !printed.is_empty() {
        session.output.print(&printed)?;
    }
    if let ("show-run", false) = (verb, matches!(access, MachineAccess::Folder(_))) {
        let machine = &found.machine;
        session.output.print_hint(&format!("paths are those in machine {machine}: pintle ssh {machine}"));
    }
    match output.status.success() {
        true => Ok(()),
        // the agent has printed why
        false => std::process::exit(output.status.code().unwrap_or(1)),
    }
}
