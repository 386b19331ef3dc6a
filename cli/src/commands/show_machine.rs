//! `show-machine MACHINE…`.

use crate::command_error::Failure;
use crate::render::{self, Format, status_json};
use crate::session::Session;
use crate::times::Zone;
use api::{GetStatus, UserPort};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub struct ShowMachine {
    #[arg(required = true)]
    pub machines: Vec<String>,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
    /// Times in UTC
    #[arg(long)]
    pub utc: bool,
}

pub async fn run<A: UserPort>(args: &ShowMachine, at: &Session<A>) -> Result<(), Failure> {
    let status = at.api.handle(GetStatus).await?;
    if let Some(unknown) = args.machines.iter().find(|name| !status.machines.contains_key(*name)) {
        return Err(Failure::new(format!("machine {unknown} not found")));
    }
    let mut machines = status_json::machines(&status, &Zone::new(args.utc));
    machines.retain(|name, _| args.machines.contains(name));
    for (name, machine) in &mut machines {
        // names its folder
        let uuid = status.machines.get(name).map(|machine| machine.uuid.to_string());
        machine["uuid"] = json!(uuid);
    }
    let document = json!({ "model": status.model.name, "machines": machines });
    at.output.say(&render::structured(&document, args.format)?)
}
