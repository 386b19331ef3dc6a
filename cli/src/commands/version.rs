//! `version`: prints the version of Pintle and the version of Juju that it reports to clients.
//!
//! Called as `juju`, `version` and `--version` print what Juju's do: the bare version, in Juju's format (spec/clients.md
//! 2.2).

use crate::command_error::CommandError;
use crate::output::Output;
use crate::render;
use api::JUJU_VERSION;
use clap::Args;
use serde_json::json;
use std::ffi::OsStr;
use std::path::Path;

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
    let version = juju_version();
    let all = json!({ "version": version, "pintle": env!("CARGO_PKG_VERSION") });
    match (args.format, args.all) {
        (None, false) => output.print(&text()),
        (None, true) => output.print(&render::yaml(&all)?),
        (Some(format), true) => output.print(&render::structured(&all, format)?),
        (Some(format), false) => output.print(&render::structured(&json!(version), format)?),
    }
}

/// What `version` and `--version` print under the name by which this process was called.
pub fn text() -> String {
    let called = std::env::args_os().next();
    match called.as_deref().map(Path::new).and_then(Path::file_name) == Some(OsStr::new("juju")) {
        true => format!("{}\n", juju_version()),
        false => format!("pintle  {}\njuju    {}\n", env!("CARGO_PKG_VERSION"), juju_version()),
    }
}

/// The version of Juju that clients are told.
fn juju_version() -> String {
    format!("{JUJU_VERSION}-ubuntu-{}", host::hardware::architecture())
}
