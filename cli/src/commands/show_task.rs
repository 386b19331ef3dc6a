//! `show-task N`: one action's state and results, as `run` would have answered (spec/clients.md 3.2).

use crate::command_error::Failure;
use crate::commands::run::finished;
use crate::render::{self, Format, task};
use crate::session::Session;
use crate::times;
use api::{GetAction, UserPort};
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct ShowTask {
    /// The number that `run` told
    pub id: u64,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
    /// Wait for its results, so long
    #[arg(long, value_parser = times::duration, value_name = "DURATION")]
    pub wait: Option<Duration>,
    #[arg(long, hide = true)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &ShowTask, at: &Session<A>) -> Result<(), Failure> {
    let task = match args.wait {
        None => {
            let task = at.api.handle(GetAction { id: args.id }).await;
            task.map_err(|error| task::unknown(error, "task", args.id))?
        }
        Some(limit) => {
            let timed_out = |_| Failure::new(format!("timed out waiting for results of task {}", args.id));
            tokio::time::timeout(limit, finished(args.id, at, |_| ())).await.map_err(timed_out)??
        }
    };
    at.output.say(&render::structured(&task::document(&task), args.format)?)
}
