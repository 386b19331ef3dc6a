//! `exec --unit UNIT… -- COMMAND`: runs commands in the context of units, or on machines outside of any context, and
//! prints their output (spec/clients.md 2.5, 3.7).
//!
//! One word is a line for the shell; several words are a program and its arguments, which are quoted. As in Juju, flags
//! that follow it are those of `exec`; those of the program need `--`. The commands are
//! tasks of one operation, like the actions of their units: `show-task`, `operations` and `cancel-task` accept them.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::commands::task_results::{RequestedTasks, ResultArgs};
use crate::render::task;
use crate::session::CommandSession;
use api::{EnqueueExec, EnqueueMachineExec, GetStatus, UnitChoice, UserPort};
use clap::Args;
use host::shell;
use state::terms::refusal::EntityKind;
use std::collections::BTreeSet;
use std::time::Duration;

/// Default of `--wait`, as in Juju.
const WAIT_DEFAULT: Duration = Duration::from_secs(300);

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(mut_arg("wait", |wait| wait.help("Longest time to wait for the results; by default 5m")))]
pub struct ExecArgs {
    /// One line for the shell, or a program and its arguments
    #[arg(required = true, value_name = "COMMAND")]
    pub words: Vec<String>,
    /// Units, separated by commas (web/0, web/leader)
    #[arg(short, long, value_delimiter = ',', value_name = "UNIT")]
    pub unit: Vec<UnitChoice>,
    /// Applications, separated by commas: all of their units
    #[arg(short, long, alias = "app", value_delimiter = ',', value_name = "APPLICATION")]
    pub application: Vec<String>,
    /// Machines, separated by commas: the commands run outside of the context of a unit
    #[arg(long, value_delimiter = ',', value_name = "MACHINE")]
    pub machine: Vec<String>,
    /// All machines of the model
    #[arg(long, conflicts_with_all = ["unit", "application", "machine"])]
    pub all: bool,
    /// Whether the commands run on all targets at once; with false, each starts when the one before it has ended
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set)]
    pub parallel: bool,
    #[arg(long, hide = true, value_name = "GROUP")]
    pub execution_group: Option<String>,
    #[command(flatten)]
    pub results: ResultArgs,
}

/// Where commands run.
enum Receiver {
    Machine(String),
    Unit(UnitChoice),
}

pub async fn run<A: UserPort>(args: &ExecArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let (mut units, mut machines) = (args.unit.clone(), args.machine.clone());
    if args.all || !args.application.is_empty() {
        let status = session.api.handle(GetStatus).await?;
        for name in &args.application {
            let application = status.applications.get(name);
            let application =
                application.ok_or_else(|| CommandError::not_found(EntityKind::Application, name))?;
            units.extend(application.units.keys().cloned().map(UnitChoice::from));
        }
        if args.all {
            // the agent of a unit runs the commands, so a machine without units is left out
            let units = status.applications.values().flat_map(|application| application.units.values());
            let with_units: BTreeSet<&String> = units.map(|unit| &unit.machine).collect();
            let (used, unused): (Vec<_>, Vec<_>) =
                status.machines.keys().cloned().partition(|name| with_units.contains(name));
            let nothing_runs = |name: &String| format!("nothing runs on machine {name}: it has no unit");
            session.output.warn(&unused.iter().map(nothing_runs).collect::<Vec<_>>());
            machines.extend(used);
        }
    }
    if units.is_empty() && machines.is_empty() && !args.all {
        let expected =
            "no target: expected --unit UNIT, --application APPLICATION, --machine MACHINE or --all";
        return Err(CommandError::usage(expected));
    }
    let group = ("--execution-group", args.execution_group.is_some(), "--parallel=false is used");
    session.output.warn(&ignored_flags([group]));
    let targets = machines.into_iter().map(Receiver::Machine).chain(units.into_iter().map(Receiver::Unit));
    let is_sequential = !args.parallel || args.execution_group.is_some();
    if is_sequential && args.results.background {
        return Err(CommandError::usage(
            "cannot use --background: with --parallel=false each command is waited for",
        ));
    }
    let commands = shell::line(&args.words);
    let mut tasks = RequestedTasks::new(&args.results, WAIT_DEFAULT, session);
    let mut targets = targets.into_iter();
    for target in targets.by_ref() {
        let (commands, operation) = (commands.clone(), tasks.operation());
        tasks.add(match target {
            Receiver::Machine(machine) => {
                session.api.handle(EnqueueMachineExec { machine, commands, operation }).await
            }
            Receiver::Unit(unit) => session.api.handle(EnqueueExec { unit, commands, operation }).await,
        });
        if is_sequential {
            tasks.wait().await;
        }
        if tasks.has_failed() {
            break;
        }
    }
    let skipped = |target: Receiver| match target {
        Receiver::Machine(machine) => format!("nothing ran on machine {machine}"),
        Receiver::Unit(unit) => format!("nothing ran on {unit}"),
    };
    session.output.warn(&targets.map(skipped).collect::<Vec<_>>());
    tasks.finish(|task| Ok(task::printed(task))).await
}
