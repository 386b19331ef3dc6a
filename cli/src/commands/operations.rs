//! `operations` and `show-operation N`: show the actions and commands that were run.
//!
//! In Pintle each operation has exactly one task, and both have the same number.

use crate::command_error::CommandError;
use crate::commands::task_results::task_of;
use crate::render::{self, StructuredFormat, Table, row, task};
use crate::session::CommandSession;
use crate::times::{self, Zone};
use api::{ActionDoc, GetAction, ListActions, UserPort};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};
use state::terms::status::ActionStatus;
use std::time::Duration;

/// Default of `--limit`, as in Juju.
const LIMIT: usize = 50;

/// Arguments of `operations`.
#[derive(Debug, Args)]
pub struct OperationsArgs {
    /// Show only operations on units of these applications; comma-separated
    #[arg(long, value_delimiter = ',')]
    pub apps: Vec<String>,
    /// Show only operations on these units; comma-separated
    #[arg(long, value_delimiter = ',')]
    pub units: Vec<String>,
    /// Show only commands on these machines; comma-separated
    #[arg(long, value_delimiter = ',')]
    pub machines: Vec<String>,
    /// Show only these actions; comma-separated
    #[arg(long, value_delimiter = ',')]
    pub actions: Vec<String>,
    /// Show only operations with these statuses; comma-separated
    #[arg(long, value_delimiter = ',', value_parser = status_words())]
    pub status: Vec<ActionStatus>,
    /// Number of the newest operations to show
    #[arg(long, default_value_t = LIMIT)]
    pub limit: usize,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
}

/// Arguments of `show-operation`.
#[derive(Debug, Args)]
pub struct ShowOperationArgs {
    /// Number of the operation
    pub id: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
    /// Longest time to wait for the results; without it, show the current state
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub wait: Option<Duration>,
    /// Wait for the results without a time limit
    #[arg(long, conflicts_with = "wait")]
    pub watch: bool,
}

/// Parses the name of a status.
fn status_words() -> impl TypedValueParser<Value = ActionStatus> {
    PossibleValuesParser::new(ActionStatus::STRINGS).try_map(|word| word.parse())
}

pub async fn list<A: UserPort>(
    args: &OperationsArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let mut all = session.api.handle(ListActions).await?;
    let any = |words: &[String], text: &str| words.is_empty() || words.iter().any(|word| word == text);
    all.retain(|action| {
        let (machine, unit) = match &action.machine {
            Some(machine) => (machine.as_str(), None),
            None => ("", Some(&action.unit_name)),
        };
        any(&args.apps, unit.map_or("", |unit| &unit.application))
            && any(&args.units, &unit.map(ToString::to_string).unwrap_or_default())
            && any(&args.machines, machine)
            && any(&args.actions, &action.name)
            && (args.status.is_empty() || args.status.contains(&action.status))
    });
    all.drain(..all.len().saturating_sub(args.limit));
    if let Some(format) = args.format {
        let operations: Map<String, Value> = all
            .iter()
            .map(|action| {
                (
                    action.id.to_string(),
                    document(action, |task| json!({ task::receiver_kind(task): task::receiver(task) })),
                )
            })
            .collect();
        return session.output.print(&render::structured(&operations.into(), format)?);
    }
    let zone = Zone::new(args.utc);
    let time = |ms: Option<i64>| ms.map_or(String::new(), |ms| zone.iso(ms));
    let mut rows = vec![row(["Id", "Status", "Started", "Finished", "Task IDs", "Summary"])];
    for action in &all {
        let id = action.id.to_string();
        rows.push(row([
            &id,
            action.status.as_str(),
            &time(action.started_ms),
            &time(action.completed_ms),
            &id,
            &summary(action),
        ]));
    }
    session.output.print(&Table { right: &[], rows }.text())
}

pub async fn show<A: UserPort>(
    args: &ShowOperationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    // an unknown number is an error of an operation, not of a task
    let known = session.api.handle(GetAction { id: args.id }).await;
    let known = known.map_err(|error| task::unknown_operation(error, args.id))?;
    let action = match args.watch || args.wait.is_some() {
        true => task_of(args.id, args.wait, args.watch, session).await?,
        false => known,
    };
    session.output.print(&render::structured(&document(&action, task::document), args.format)?)
}

fn summary(action: &ActionDoc) -> String {
    let machine = if action.machine.is_some() { "machine " } else { "" };
    format!("{} run on {machine}{}", action.name, task::receiver(action))
}

fn document(action: &ActionDoc, render_task: impl Fn(&ActionDoc) -> Value) -> Value {
    let tasks = Map::from_iter([(action.id.to_string(), render_task(action))]);
    let timing = task::timing(action);
    json!({ "summary": summary(action), "status": action.status.as_str(), "action": action.name, "timing": timing, "tasks": tasks })
}
