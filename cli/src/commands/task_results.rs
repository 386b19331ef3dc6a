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
use serde_json::{Map, Value, json};
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

/// The tasks that one command has enqueued, which are one operation, and how their results are waited for and printed.
///
/// A failure ends the command, but the results of the tasks that have finished are printed in any case.
pub struct RequestedTasks<'a, A> {
    args: &'a ResultArgs,
    /// The longest time to wait, unless `--wait` is given.
    wait_default: Duration,
    session: &'a CommandSession<A>,
    /// The number of all tasks.
    ids: Vec<u64>,
    /// The tasks that have not finished.
    waiting: Vec<ActionDoc>,
    /// The tasks that have finished.
    done: Vec<ActionDoc>,
    /// Why a task was refused, or was not waited for to its end.
    failure: Option<CommandError>,
}

impl<'a, A: UserPort> RequestedTasks<'a, A> {
    pub fn new(
        args: &'a ResultArgs,
        wait_default: Duration,
        session: &'a CommandSession<A>,
    ) -> RequestedTasks<'a, A> {
        let (ids, waiting, done) = (Vec::new(), Vec::new(), Vec::new());
        RequestedTasks { args, wait_default, session, ids, waiting, done, failure: None }
    }

    /// The operation that the next task belongs to; none for the first one.
    pub fn operation(&self) -> Option<u64> {
        self.ids.first().copied()
    }

    /// Whether no further task is to be enqueued.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Adds the answer to a request for a task. An unknown unit or machine is a remark and no failure.
    pub fn add(&mut self, answer: Result<Committed<ActionDoc>, ApiError>) {
        match answer {
            Ok(Committed { answer: task, revision }) => {
                self.session.record_write(revision);
                self.ids.push(task.id);
                self.waiting.push(task);
            }
            // Clients recognise an unknown unit by exit code 0 with nothing on stdout. An unknown model is an error, as
            // in every command.
            Err(error) if error.code == ErrorCode::NotFound && !is_of_model_or_operation(&error) => {
                self.session.output.print_remark(&format!(
                    "Operation failed to schedule any tasks:\n{}\n",
                    safe_line(&error.message)
                ));
            }
            Err(error) => self.failure = Some(error.into()),
        }
    }

    /// Waits until the tasks that were added have finished, for the longest time to wait at most.
    pub async fn wait(&mut self) {
        let limit = self.args.wait.unwrap_or(self.wait_default);
        let waiting = std::mem::take(&mut self.waiting);
        let mut done = Vec::new();
        let waited = tokio::time::timeout(limit, results(&waiting, &mut done, self.args, self.session)).await;
        let unfinished = &waiting[done.len()..];
        self.done.append(&mut done);
        match waited {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.failure = self.failure.take().or(Some(failure)),
            Err(_) => {
                // tasks are waited for in order: a later one may have finished
                let mut late = Vec::new();
                for task in unfinished {
                    match self.session.api.handle(GetAction { id: task.id }).await {
                        Ok(found) if found.status.is_final() => self.done.push(found),
                        Ok(_) | Err(_) => late.push(task),
                    }
                }
                let timed_out = (!late.is_empty()).then(|| timed_out(&late));
                self.failure = self.failure.take().or(timed_out);
            }
        }
    }

    /// Waits for the results, unless `--background` is given, and prints them.
    ///
    /// # Errors
    /// If a task has failed or was refused, or the timeout has expired.
    pub async fn finish(mut self, plain: PlainText) -> Result<(), CommandError> {
        if self.args.background {
            self.print_scheduled()?;
            return self.failure.map_or(Ok(()), Err);
        }
        self.print_running();
        self.wait().await;
        if !self.done.is_empty() {
            print(&self.done, self.ids.len() > 1, self.args.format, plain, self.session)?;
        }
        // as in Juju such an action is no error of the command
        let failures = self.done.iter().filter_map(task::action_failure);
        failures.for_each(|failure| self.session.output.print_remark(&format!("{failure}\n")));
        self.failure.or_else(|| task::failure(&self.done)).map_or(Ok(()), Err)
    }

    /// Prints which tasks are waited for, in Juju's words.
    fn print_running(&self) {
        let Some(first) = self.waiting.first().filter(|_| self.args.format == ResultFormat::Plain) else {
            return;
        };
        let plural = if self.waiting.len() == 1 { "" } else { "s" };
        let line = |task: &ActionDoc| format!("  - task {} on {}\n", task.id, task::receiver_tag(task));
        let lines: String = self.waiting.iter().map(line).collect();
        self.session.output.print_remark(&format!(
            "Running operation {} with {} task{plural}\n{lines}\n",
            first.operation,
            self.waiting.len()
        ));
    }

    /// Prints what was scheduled, in Juju's words; of several tasks also, as a result, which one is of which receiver.
    fn print_scheduled(&self) -> Result<(), CommandError> {
        let Some(first) = self.ids.first() else { return Ok(()) };
        let tasks = match self.ids.len() {
            1 => format!("task {first}"),
            count => format!("{count} tasks"),
        };
        let mut text = format!("Scheduled operation {first} with {tasks}\n");
        text += &format!("Check operation status with 'pintle show-operation {first}'\n");
        if self.ids.len() == 1 {
            text += &format!("Check task status with 'pintle show-task {first}'\n");
        }
        self.session.output.print_remark(&self.session.output.complete(&text));
        if self.ids.len() == 1 {
            return Ok(());
        }
        let id = |task: &ActionDoc| (task::receiver(task), json!({ "id": task.id.to_string() }));
        let all: Map<String, Value> = self.waiting.iter().map(id).collect();
        let format = match self.args.format {
            ResultFormat::Json => render::StructuredFormat::Json,
            ResultFormat::Plain | ResultFormat::Yaml => render::StructuredFormat::Yaml,
        };
        self.session.output.print(&render::structured(&all.into(), format)?)
    }
}

/// Whether the model or the operation was not found.
fn is_of_model_or_operation(error: &ApiError) -> bool {
    matches!(
        error.reason.as_deref(),
        Some(RefusalReason::NotFound { kind: EntityKind::Model | EntityKind::Operation, .. })
    )
}

/// The error of a command whose time to wait has expired before these tasks had finished.
fn timed_out(tasks: &[&ActionDoc]) -> CommandError {
    let name = |task: &&ActionDoc| format!("{} {}", task::receiver_kind(task), task::receiver(task));
    let receivers: Vec<String> = tasks.iter().map(name).collect();
    let help = format!("the task keeps running; to wait for it: pintle show-task {} --wait 5m", tasks[0].id);
    CommandError::new(format!("timed out waiting for results from: {}", receivers.join(", "))).hint(help)
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

/// Waits until all tasks are completed and adds them to `done`, in order; with the plain format it prints their log lines
/// as they arrive.
async fn results<A: UserPort>(
    tasks: &[ActionDoc],
    done: &mut Vec<ActionDoc>,
    args: &ResultArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let plain = args.format == ResultFormat::Plain;
    let zone = Zone::new(args.utc);
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
    Ok(())
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

/// Prints results. With headings, each begins with the name of its unit or machine.
fn print<A>(
    tasks: &[ActionDoc],
    with_headings: bool,
    format: ResultFormat,
    plain: PlainText,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let format = match format {
        ResultFormat::Plain => {
            for task in tasks {
                let heading =
                    if with_headings { format!("{}:\n", task::receiver(task)) } else { String::new() };
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
