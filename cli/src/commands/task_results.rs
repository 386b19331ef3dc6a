//! What `run` and `exec` share: the tasks that were enqueued, waiting for their results, and printing them
//! (spec/clients.md 2.5, 3.7).
//!
//! Clients distinguish an unknown unit (exit code 0, no output) from a failed task by exit codes and error texts. A
//! client that stops waiting ends no task.

use crate::command_error::CommandError;
use crate::render::{self, task};
use crate::session::CommandSession;
use crate::terminal_escape::safe_line;
use crate::times::Zone;
use api::error::{ApiError, ErrorCode};
use api::{ActionDoc, EnqueueActionResponse, GetAction, ListModels, UserPort, WaitForChange};
use serde_json::{Map, Value};
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
pub struct ResultOptions {
    pub format: ResultFormat,
    /// The longest time to wait. `None`: the tasks are not waited for.
    pub wait: Option<Duration>,
    pub utc: bool,
    /// The text of a task in the plain format.
    pub plain: fn(&ActionDoc) -> Result<String, CommandError>,
}

/// The task that was enqueued. `None` if its unit does not exist, which is a remark and no error.
///
/// # Errors
/// If the task was refused, or the model does not exist.
pub async fn enqueued<A: UserPort>(
    answer: Result<EnqueueActionResponse, ApiError>,
    session: &CommandSession<A>,
) -> Result<Option<EnqueueActionResponse>, CommandError> {
    match answer {
        Ok(task) => {
            session.note_write(task.revision);
            Ok(Some(task))
        }
        // Clients recognise an unknown unit by exit code 0 with nothing on stdout.
        Err(error) if error.code == ErrorCode::NotFound => {
            // An unknown model is an error, as in every command.
            let models = session.api.handle(ListModels).await?;
            let is_current = |model: &api::ModelInfo| {
                model.name == session.model || model.uuid.to_string() == session.model
            };
            if !models.iter().any(is_current) {
                return Err(error.into());
            }
            session.output.print_remark(&format!(
                "Operation failed to schedule any tasks:\n{}\n",
                safe_line(&error.message)
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for the results of the tasks and prints them.
///
/// # Errors
/// If a task has failed, or the time is over.
pub async fn finish<A: UserPort>(
    tasks: &[EnqueueActionResponse],
    options: &ResultOptions,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let Some(first) = tasks.first() else { return Ok(()) };
    let Some(limit) = options.wait else {
        let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
        session.output.print_remark(&format!(
            "Scheduled task {}\nCheck its state with: pintle show-task {}\n",
            ids.join(", "),
            first.id
        ));
        return Ok(());
    };
    let done = tokio::time::timeout(limit, results(tasks, options, session)).await.map_err(|_| {
        let units: Vec<String> = tasks.iter().map(|task| format!("unit {}", task.unit)).collect();
        let text = format!("timed out waiting for results from: {}", units.join(", "));
        CommandError::new(text)
            .hint(format!("the task keeps running; to wait for it: pintle show-task {} --wait 5m", first.id))
    })??;
    print(&done, options, session)?;
    task::failure(&done).map_or(Ok(()), Err)
}

/// Waits until all tasks are completed; with the plain format it prints their log lines as they arrive.
async fn results<A: UserPort>(
    tasks: &[EnqueueActionResponse],
    options: &ResultOptions,
    session: &CommandSession<A>,
) -> Result<Vec<ActionDoc>, CommandError> {
    let plain = options.format == ResultFormat::Plain;
    let zone = Zone::new(options.utc);
    let mut done = Vec::new();
    for enqueued in tasks {
        if plain {
            session.output.print_remark(&format!("Waiting for task {}...\n", enqueued.id));
        }
        let mut shown = 0;
        let print_log = |task: &ActionDoc| {
            for (ms, line) in task.log.iter().skip(shown).filter(|_| plain) {
                session.output.print_remark(&format!(
                    "{} {}\n",
                    zone.log_time(*ms, false, false),
                    safe_line(line)
                ));
            }
            shown = task.log.len();
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
    options: &ResultOptions,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let format = match options.format {
        ResultFormat::Plain => {
            for task in tasks {
                let heading = if tasks.len() > 1 { format!("{}:\n", task.unit_name) } else { String::new() };
                session.output.print(&format!("{heading}{}", (options.plain)(task)?))?;
            }
            return Ok(());
        }
        ResultFormat::Json => render::StructuredFormat::Json,
        ResultFormat::Yaml => render::StructuredFormat::Yaml,
    };
    let all: Map<String, Value> =
        tasks.iter().map(|task| (task.unit_name.to_string(), task::document(task))).collect();
    session.output.print(&render::structured(&all.into(), format)?)
}
