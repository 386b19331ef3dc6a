//! `version`: prints the version of Juju that Pintle reports to clients, in Juju's format (spec/clients.md 2.2).

use crate::command_error::CommandError;
use crate::commands::constraints::host_arch;
use crate::output::Output;
use crate::render;
use api::JUJU_VERSION;
use clap::Args;
use serde_json::json;

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Also show the version of Pintle
    #[arg(long)]
    pub all: bool,
    /// Output format
    #[arg(long, value_enum)]
    pub format: Option<render::StructuredFormat>,
}

pub fn run(args: &VersionArgs, output: &Output) -> Result<(), CommandError> {
    let version = format!("{JUJU_VERSION}-ubuntu-{}", host_arch());
    let all = json!({ "version": version, "pintle": env!("CARGO_PKG_VERSION") });
    match (args.format, args.all) {
        (None, false) => output.print(&format!("{version}\n")),
        (None, true) => output.print(&render::yaml(&all)?),
        (Some(format), true) => output.print(&render::structured(&all, format)?),
        (Some(format), false) => output.print(&render::structured(&json!(version), format)?),
    }
}
