//! `machines`: lists the machines of the model.

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, status_json, status_table};
use crate::session::CommandSession;
use crate::times::Zone;
use api::{GetStatus, UserPort};
use clap::Args;
use serde_json::json;

/// Arguments of `machines`.
#[derive(Debug, Args)]
pub struct MachinesArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &MachinesArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    match args.format {
        Some(format) => {
            let machines = status_json::machines(&status, &Zone::new(args.utc));
            let document = json!({ "model": status.model.name, "machines": machines });
            session.output.print(&render::structured(&document, format)?)
        }
        None => {
            let (table, colours) = status_table::machines(&status);
            session.output.print_table(&table, &colours)
        }
    }
}
