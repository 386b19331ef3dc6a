//! `cancel-task N…`: cancels tasks. A task that has not started never runs; the process of a running task is ended.
//!
//! The document of the cancelled tasks has Juju's format. A task that cannot be cancelled is reported with the reason,
//! and the exit code is 1; the others are cancelled nevertheless.

use crate::command_error::CommandError;
use crate::commands::removal;
use crate::render::{self, StructuredFormat, task};
use crate::session::CommandSession;
use crate::times::Zone;
use api::{ActionDoc, CancelAction, UserPort};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `cancel-task`.
#[derive(Debug, Args)]
pub struct CancelTaskArgs {
    /// Numbers of tasks, as printed by run
    #[arg(required = true)]
    pub ids: Vec<u64>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

pub async fn run<A: UserPort>(
    args: &CancelTaskArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let (mut cancelled, mut failures) = (Vec::new(), Vec::new());
    for &id in &args.ids {
        match session.api.handle(CancelAction { id }).await {
            Ok(committed) => {
                session.record_write(committed.revision);
                cancelled.push(document(&committed.answer));
            }
            Err(error) => failures.push(error.into()),
        }
    }
    if !cancelled.is_empty() {
        session.output.print(&render::structured(&json!({ "actions": cancelled }), args.format)?)?;
    }
    removal::combine(failures)
}

fn document(task: &ActionDoc) -> Value {
    let completed =
        task.completed_ms.map_or("n/a".to_owned(), |ms| Zone::new(true).log_time(ms, true, false));
    json!({
        "action": task.name,
        "completed at": completed,
        "id": task.id.to_string(),
        "status": task.status.as_str(),
        task::receiver_kind(task): task::receiver(task),
    })
}
