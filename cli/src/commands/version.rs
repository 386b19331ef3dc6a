//! `version`: prints the version of Juju that Pintle reports to clients, in Juju's format (spec/clients.md 2.2).

use crate::command_error::CommandError;
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
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = format!("{JUJU_VERSION}-ubuntu-{architecture}");
    let all = json!({ "version": version, "pintle": env!("CARGO_PKG_VERSION") });
    match (args.format, args.all) {
        (None, false) => output.print(&format!("{version}\n")),
        (None, true) => output.print(&render::yaml(&all)?),
        (Some(format), true) => output.print(&render::structured(&all, format)?),
        (Some(format), false) => output.print(&render::structured(&json!(version), format)?),
    }
}
