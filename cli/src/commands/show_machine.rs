//! `show-machine MACHINE…`: shows machines with their UUIDs, which name their data folders.

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, status_json};
use crate::session::CommandSession;
use crate::times::Zone;
use api::{GetStatus, UserPort};
use clap::Args;
use serde_json::json;
use state::terms::refusal::EntityKind;

/// Arguments of `show-machine`.
#[derive(Debug, Args)]
pub struct ShowMachineArgs {
    /// Names of machines, for example 0
    #[arg(required = true)]
    pub machines: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(
    args: &ShowMachineArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    if let Some(unknown) = args.machines.iter().find(|name| !status.machines.contains_key(*name)) {
        return Err(CommandError::not_found(EntityKind::Machine, unknown));
    }
    let mut machines = status_json::machines(&status, &Zone::new(args.utc));
    machines.retain(|name| args.machines.iter().any(|chosen| chosen == name));
    let mut document = json!({ "model": status.model.name, "machines": machines });
    for name in &args.machines {
        // The data folder of a machine is named by its UUID.
        let uuid = status.machines.get(name).map(|machine| machine.uuid.to_string());
        document["machines"][name]["uuid"] = json!(uuid);
    }
    session.output.print(&render::structured(&document, args.format)?)
}
