//! `set-model-constraints` and `model-constraints`: every machine is this host, so nothing can be asked of it but what
//! it is (spec/clients.md 2.2, 2.6: test suites say its own architecture first thing).

use crate::command_error::Failure;
use crate::commands::settings;
use crate::render::{self, Format};
use crate::session::Session;
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub struct SetModelConstraints {
    /// key=value
    pub constraints: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ModelConstraints {
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

/// Another architecture could never be had; what is only not enforced is said.
pub fn set<A>(args: &SetModelConstraints, at: &Session<A>) -> Result<(), Failure> {
    let mut wanted = settings::pairs(&args.constraints)?;
    if let Some(arch) = wanted.remove("arch").filter(|arch| arch != host_arch()) {
        let text = format!("no machine of architecture {arch:?} can be had: this host is {}", host_arch());
        return Err(Failure::new(text));
    }
    let warning = |key: &String| format!("constraint {key:?} has no effect: every machine is this host");
    at.output.warn(&wanted.keys().map(warning).collect::<Vec<_>>());
    Ok(())
}

/// What holds of every machine here.
pub fn show<A>(args: &ModelConstraints, at: &Session<A>) -> Result<(), Failure> {
    match args.format {
        None => at.output.say(&format!("arch={}\n", host_arch())),
        Some(format) => at.output.say(&render::structured(&json!({ "arch": host_arch() }), format)?),
    }
}

/// This host's architecture, by the name Juju and Debian have for it.
fn host_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    }
}
