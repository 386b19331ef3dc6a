//! `set-model-constraints` and `model-constraints`.
//!
//! Every machine runs on this host, so the only constraint that can be satisfied is the architecture of this host.
//! Test suites set it before anything else (spec/clients.md 2.2, 2.6).

use crate::command_error::CommandError;
use crate::commands::settings;
use crate::render::{self, StructuredFormat};
use crate::session::CommandSession;
use clap::Args;
use serde_json::json;

/// Arguments of `set-model-constraints`.
#[derive(Debug, Args)]
pub struct SetModelConstraintsArgs {
    /// Constraints as key=value; only arch is enforced
    pub constraints: Vec<String>,
}

/// Arguments of `model-constraints`.
#[derive(Debug, Args)]
pub struct ModelConstraintsArgs {
    /// Output format
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// Rejects another architecture than this host's, and warns about constraints that have no effect.
///
/// # Errors
/// If a constraint names another architecture.
pub fn set<A>(args: &SetModelConstraintsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let mut wanted = settings::parse_pairs(&args.constraints)?;
    if let Some(arch) = wanted.remove("arch").filter(|arch| arch != host_arch()) {
        let text = format!("cannot use constraint arch={arch}: this host is {}", host_arch());
        return Err(CommandError::new(text));
    }
    let warning = |key: &String| format!("constraint {key:?} has no effect: every machine runs on this host");
    session.output.warn(&wanted.keys().map(warning).collect::<Vec<_>>());
    Ok(())
}

/// Prints the architecture of this host.
///
/// # Errors
/// If stdout cannot be written.
pub fn show<A>(args: &ModelConstraintsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    match args.format {
        None => session.output.print(&format!("arch={}\n", host_arch())),
        Some(format) => session.output.print(&render::structured(&json!({ "arch": host_arch() }), format)?),
    }
}

/// The architecture of this host, by its name in Juju and Debian.
pub fn host_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    }
}
