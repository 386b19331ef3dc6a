//! Shared steps of `run` and `exec`: waiting for the results of enqueued tasks, and printing them (spec/clients.md 2.5,
//! 3.7).
//!
//! Clients distinguish an unknown unit (exit code 0, no output) from a failed task by exit codes and error texts. A
//! task keeps running if its client stops waiting.

use crate::command_error::CommandError;
use crate::render::{self, task};
use crate::session::CommandSession;
use crate::terminal_escape::safe_line;
use crate::times::{self, Zone};
use api::error::{ApiError, ErrorCode};
use api::{ActionDoc, GetAction, UserPort, WaitForChange};
use clap::Args;
use serde_json::{Map, Value};
use state::terms::position::Committed;
use state::terms::refusal::{EntityKind, RefusalReason};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ResultFormat {
    /// The results as text
    Plain,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// How the results of tasks are waited for and printed.
#[derive(Debug, Args)]
pub struct ResultArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "plain")]
    pub format: ResultFormat,
    /// Longest time to wait for the results; by default 60s
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub wait: Option<Duration>,
    /// Do not wait for the results
    #[arg(long, conflicts_with = "wait")]
    pub background: bool,
    #[arg(long, hide = true)]
    pub utc: bool,
    #[arg(long, hide = true)]
    pub color: bool,
    #[arg(long, hide = true)]
    pub no_color: bool,
}

/// The text of a task in the plain format.
pub type PlainText = fn(&ActionDoc) -> Result<String, CommandError>;

/// The task that was enqueued. `None` if its unit does not exist, which is a remark and no error.
///
/// # Errors
/// If the task was refused, or the model does not exist.
pub fn enqueued<A: UserPort>(
    answer: Result<Committed<ActionDoc>, ApiError>,
    session: &CommandSession<A>,
) -> Result<Option<ActionDoc>, CommandError> {
    match answer {
        Ok(Committed { answer: task, revision }) => {
            session.note_write(revision);
            Ok(Some(task))
        }
        // Clients recognise an unknown unit by exit code 0 with nothing on stdout. An unknown model is an error, as in
        // every command.
        Err(error) if error.code == ErrorCode::NotFound && !is_of_model(&error) => {
            session.output.print_remark(&format!(
                "Operation failed to schedule any tasks:\n{}\n",
                safe_line(&error.message)
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the model was not found.
fn is_of_model(error: &ApiError) -> bool {
    matches!(error.reason.as_deref(), Some(RefusalReason::NotFound { kind: EntityKind::Model, .. }))
}

/// Waits for the results of the tasks, unless `--background` is given, and prints them.
///
/// # Errors
/// If a task has failed, or the timeout has expired.
pub async fn finish<A: UserPort>(
    tasks: &[ActionDoc],
    args: &ResultArgs,
    wait_default: Duration,
    plain: PlainText,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let Some(first) = tasks.first() else { return Ok(()) };
    if args.background {
        let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
        let text = format!(
            "Scheduled task {}\nCheck its state with: pintle show-task {}\n",
            ids.join(", "),
            first.id
        );
        session.output.print_remark(&session.output.complete(&text));
        return Ok(());
    }
    let done = wait_at_most(tasks, args, wait_default, session).await?;
    print(&done, args.format, plain, session)?;
    // as in Juju such an action is no error of the command
    let failures = done.iter().filter_map(task::action_failure);
    failures.for_each(|failure| session.output.print_remark(&format!("{failure}\n")));
    task::failure(&done).map_or(Ok(()), Err)
}

/// Waits for the results of the tasks.
///
/// # Errors
/// If the timeout has expired.
pub async fn wait_at_most<A: UserPort>(
    tasks: &[ActionDoc],
    args: &ResultArgs,
    wait_default: Duration,
    session: &CommandSession<A>,
) -> Result<Vec<ActionDoc>, CommandError> {
    let limit = args.wait.unwrap_or(wait_default);
    let Some(first) = tasks.first() else { return Ok(Vec::new()) };
    tokio::time::timeout(limit, results(tasks, args, session)).await.map_err(|_| {
        let name = |task| format!("{} {}", task::receiver_kind(task), task::receiver(task));
        let receivers: Vec<String> = tasks.iter().map(name).collect();
        let text = format!("timed out waiting for results from: {}", receivers.join(", "));
        CommandError::new(text)
            .hint(format!("the task keeps running; to wait for it: pintle show-task {} --wait 5m", first.id))
    })?
}

/// The task, once it is completed if that is requested.
///
/// # Errors
/// If the task does not exist, or the timeout has expired.
pub async fn task_of<A: UserPort>(
    id: u64,
    wait: Option<Duration>,
    watch: bool,
    session: &CommandSession<A>,
) -> Result<ActionDoc, CommandError> {
    match (wait, watch) {
        (None, false) => Ok(session.api.handle(GetAction { id }).await?),
        (None, true) => wait_for_task(id, session, |_| ()).await,
        (Some(limit), _) => {
            let timed_out = |_| CommandError::new(format!("timed out waiting for results of task {id}"));
            tokio::time::timeout(limit, wait_for_task(id, session, |_| ())).await.map_err(timed_out)?
        }
    }
}

/// Waits until all tasks are completed; with the plain format it prints their log lines as they arrive.
async fn results<A: UserPort>(
    tasks: &[ActionDoc],
    args: &ResultArgs,
    session: &CommandSession<A>,
) -> Result<Vec<ActionDoc>, CommandError> {
    let plain = args.format == ResultFormat::Plain;
    let zone = Zone::new(args.utc);
    let mut done = Vec::new();
    for enqueued in tasks {
        if plain {
            session.output.print_remark(&format!("Waiting for task {}...\n", enqueued.id));
        }
        let mut shown = 0;
        let print_log = |task: &ActionDoc| {
            for line in task.log.iter().filter(|line| plain && line.report > shown) {
                session.output.print_remark(&format!(
                    "{} {}\n",
                    zone.log_time(line.at_ms, false, false),
                    safe_line(&line.text)
                ));
            }
            shown = task.log.last().map_or(shown, |line| line.report);
        };
        done.push(wait_for_task(enqueued.id, session, print_log).await?);
    }
    Ok(done)
}

/// Waits until the task is completed and returns it. Requests the task again after every change of the controller's
/// store, and calls `observe` with each answer.
///
/// # Errors
/// If the task does not exist, or the controller does not answer.
pub async fn wait_for_task<A: UserPort>(
    id: u64,
    session: &CommandSession<A>,
    mut observe: impl FnMut(&ActionDoc),
) -> Result<ActionDoc, CommandError> {
    let mut after = None;
    loop {
        after = Some(session.api.handle(WaitForChange { after }).await?);
        let task = session.api.handle(GetAction { id }).await?;
        observe(&task);
        if task.status.is_final() {
            return Ok(task);
        }
    }
}

fn print<A>(
    tasks: &[ActionDoc],
    format: ResultFormat,
    plain: PlainText,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let format = match format {
        ResultFormat::Plain => {
            for task in tasks {
                let heading =
                    if tasks.len() > 1 { format!("{}:\n", task::receiver(task)) } else { String::new() };
                session.output.print(&format!("{heading}{}", plain(task)?))?;
            }
            return Ok(());
        }
        ResultFormat::Json => render::StructuredFormat::Json,
        ResultFormat::Yaml => render::StructuredFormat::Yaml,
    };
    let all: Map<String, Value> =
        tasks.iter().map(|task| (task::receiver(task), task::document(task))).collect();
    session.output.print(&render::structured(&all.into(), format)?)
}
