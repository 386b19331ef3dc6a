//! `version`: what clients are told, as Juju words it.

use crate::command_error::Failure;
use crate::output::Output;
use crate::render;
use api::JUJU_VERSION;
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub struct Version {
    /// Pintle's own version too
    #[arg(long)]
    pub all: bool,
    #[arg(long, value_enum)]
    pub format: Option<render::Format>,
}

pub fn run(args: &Version, output: &Output) -> Result<(), Failure> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = format!("{JUJU_VERSION}-ubuntu-{architecture}");
    let all = json!({ "version": version, "pintle": env!("CARGO_PKG_VERSION") });
    match (args.format, args.all) {
        (None, false) => output.say(&format!("{version}\n")),
        (None, true) => output.say(&render::yaml(&all)?),
        (Some(format), true) => output.say(&render::structured(&all, format)?),
        (Some(format), false) => output.say(&render::structured(&json!(version), format)?),
    }
}
