//! `operations` and `show-operation N`: show the actions and commands that were run.
//!
//! An operation is what one `run` or `exec` has requested: a task for each unit or machine. Its number is that of its first
//! task.

use crate::command_error::CommandError;
use crate::commands::task_results::wait_for_task;
use crate::render::{self, StructuredFormat, Table, row, task};
use crate::session::CommandSession;
use crate::times::{self, Zone};
use api::{ActionDoc, GetAction, ListActions, UserPort};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};
use state::terms::refusal::EntityKind;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;
use std::time::Duration;

/// Default of `--limit`, as in Juju.
const LIMIT: usize = 50;
/// The number of tasks that the table names for each operation, as in Juju.
const NAMED_TASKS_MAX: usize = 5;

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
    /// Number of the newest operations to leave out
    #[arg(long, default_value_t = 0)]
    pub offset: usize,
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
    #[arg(long, hide = true)]
    pub utc: bool,
}

/// Parses the name of a status.
fn status_words() -> impl TypedValueParser<Value = ActionStatus> {
    PossibleValuesParser::new(ActionStatus::STRINGS).try_map(|word| word.parse())
}

pub async fn list<A: UserPort>(
    args: &OperationsArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let any = |words: &[String], text: &str| words.is_empty() || words.iter().any(|word| word == text);
    let is_chosen = |action: &ActionDoc| {
        let (machine, unit) = match &action.machine {
            Some(machine) => (machine.as_str(), None),
            None => ("", Some(&action.unit_name)),
        };
        any(&args.apps, unit.map_or("", |unit| &unit.application))
            && any(&args.units, &unit.map(ToString::to_string).unwrap_or_default())
            && any(&args.machines, machine)
            && any(&args.actions, &action.name)
    };
    let mut all = Operation::group(session.api.handle(ListActions).await?);
    all.retain(|operation| {
        operation.tasks.iter().any(is_chosen)
            && (args.status.is_empty() || args.status.contains(&operation.status()))
    });
    all.truncate(all.len().saturating_sub(args.offset));
    all.drain(..all.len().saturating_sub(args.limit));
    if all.is_empty() {
        session.output.print_remark("no matching operations\n");
        return Ok(());
    }
    if let Some(format) = args.format {
        let operations: Map<String, Value> =
            all.iter().map(|operation| (operation.id.to_string(), operation.document())).collect();
        return session.output.print(&render::structured(&operations.into(), format)?);
    }
    let zone = Zone::new(args.utc);
    let time = |ms: Option<i64>| ms.map_or(String::new(), |ms| zone.iso(ms));
    let mut rows = vec![row(["Id", "Status", "Started", "Finished", "Task IDs", "Summary"])];
    for operation in &all {
        rows.push(row([
            &operation.id.to_string(),
            operation.status().as_str(),
            &time(operation.started_ms()),
            &time(operation.completed_ms()),
            &operation.task_ids(),
            &operation.summary(),
        ]));
    }
    session.output.print(&Table { right: &[], rows }.text())
}

pub async fn show<A: UserPort>(
    args: &ShowOperationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let all = Operation::group(session.api.handle(ListActions).await?);
    let Some(found) = all.into_iter().find(|operation| operation.id == args.id) else {
        return Err(CommandError::not_found(EntityKind::Operation, args.id));
    };
    let with_results = async {
        let mut tasks = Vec::new();
        for ActionDoc { id, .. } in found.tasks {
            tasks.push(match args.watch || args.wait.is_some() {
                true => wait_for_task(id, session, |_| ()).await?,
                false => session.api.handle(GetAction { id }).await?,
            });
        }
        Ok::<_, CommandError>(Operation { id: args.id, tasks })
    };
    let operation = match args.wait {
        Some(limit) => tokio::time::timeout(limit, with_results).await.map_err(|_| {
            CommandError::new(format!("timed out waiting for results of operation {}", args.id))
        })??,
        None => with_results.await?,
    };
    session.output.print(&render::structured(&operation.document(), args.format)?)
}

/// An operation with those of its tasks that are stored, at least one, in order.
struct Operation {
    id: u64,
    tasks: Vec<ActionDoc>,
}

impl Operation {
    /// The operations of these tasks, in order.
    fn group(tasks: Vec<ActionDoc>) -> Vec<Operation> {
        let mut operations = BTreeMap::<u64, Vec<ActionDoc>>::new();
        for task in tasks {
            operations.entry(task.operation).or_default().push(task);
        }
        operations.into_iter().map(|(id, tasks)| Operation { id, tasks }).collect()
    }

    fn status(&self) -> ActionStatus {
        let statuses = self.tasks.iter().map(|task| task.status);
        ActionStatus::of_operation(statuses).expect("an operation has a task")
    }

    fn started_ms(&self) -> Option<i64> {
        self.tasks.iter().filter_map(|task| task.started_ms).min()
    }

    /// When the last task has finished; none if one has not.
    fn completed_ms(&self) -> Option<i64> {
        self.tasks.iter().map(|task| task.completed_ms).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn task_ids(&self) -> String {
        let named: Vec<String> =
            self.tasks.iter().take(NAMED_TASKS_MAX).map(|task| task.id.to_string()).collect();
        let more = if self.tasks.len() > NAMED_TASKS_MAX { "..." } else { "" };
        named.join(",") + more
    }

    fn summary(&self) -> String {
        let receivers: Vec<String> = self.tasks.iter().map(task::receiver_tag).collect();
        format!("{} run on {}", self.tasks[0].name, receivers.join(","))
    }

    /// The document below its number, in Juju's form.
    fn document(&self) -> Value {
        let tasks = self.tasks.iter();
        let tasks: Map<String, Value> =
            tasks.map(|task| (task.id.to_string(), task::document_in_operation(task))).collect();
        let enqueued_ms = self.tasks.iter().map(|task| task.enqueued_ms).min();
        let timing = task::timing(enqueued_ms, self.started_ms(), self.completed_ms());
        json!({
            "summary": self.summary(),
            "status": self.status().as_str(),
            "action": { "name": self.tasks[0].name, "parameters": self.tasks[0].params },
            "timing": timing,
            "tasks": tasks,
        })
    }
}
