//! `machines`.

use crate::command_error::Failure;
use crate::render::{self, Format, status_json, status_table};
use crate::session::Session;
use crate::times::Zone;
use api::{GetStatus, UserPort};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub struct Machines {
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Times in UTC
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &Machines, at: &Session<A>) -> Result<(), Failure> {
    let status = at.api.handle(GetStatus).await?;
    match args.format {
        Some(format) => {
            let machines = status_json::machines(&status, &Zone::new(args.utc));
            let document = json!({ "model": status.model.name, "machines": machines });
            at.output.say(&render::structured(&document, format)?)
        }
        None => at.output.say(&status_table::machines(&status)),
    }
}
