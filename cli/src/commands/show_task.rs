//! `show-task N`: shows the status and the results of a task in the format of `run` (spec/clients.md 3.2).

use crate::command_error::CommandError;
use crate::commands::task_results::task_of;
use crate::render::{self, StructuredFormat, task};
use crate::session::CommandSession;
use crate::times;
use api::UserPort;
use clap::Args;
use std::time::Duration;

/// Arguments of `show-task`.
#[derive(Debug, Args)]
pub struct ShowTaskArgs {
    /// Number of the task, as printed by run
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

pub async fn run<A: UserPort>(args: &ShowTaskArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let task = task_of(args.id, args.wait, args.watch, session).await?;
    session.output.print(&render::structured(&task::document(&task), args.format)?)
}
