//! `refresh APP --path CHARM`.

use crate::command_error::Failure;
use crate::commands::{charm_source, settings};
use crate::session::Session;
use api::UserPort;
use clap::Args;

#[derive(Debug, Args)]
pub struct Refresh {
    pub application: String,
    /// Path of a charm folder or a .charm file
    #[arg(long, visible_alias = "switch", value_name = "CHARM")]
    pub path: Option<String>,
    /// A setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    /// Take a charm that was packed for something else
    #[arg(long)]
    pub force: bool,
    /// Replace the charm of units in error too
    #[arg(long)]
    pub force_units: bool,
    #[arg(long, hide = true)]
    pub force_base: bool,
    #[arg(long, hide = true)]
    pub force_series: bool,
    #[arg(long, hide = true)]
    pub base: Option<String>,
    #[arg(long, hide = true)]
    pub bind: Option<String>,
    #[arg(long, hide = true)]
    pub channel: Option<String>,
    #[arg(long, hide = true)]
    pub resource: Vec<String>,
    #[arg(long, hide = true)]
    pub revision: Option<String>,
    #[arg(long, hide = true)]
    pub storage: Vec<String>,
    #[arg(long, hide = true)]
    pub trust: bool,
}

pub async fn run<A: UserPort>(args: &Refresh, at: &Session<A>) -> Result<(), Failure> {
    let path = args.path.as_deref().ok_or_else(|| {
        let text = format!("cannot refresh {}: there is no charm store here", args.application);
        Failure::new(text).hint("name the new charm: --path DIR-OR-FILE")
    })?;
    let source = charm_source::load(path, args.force, at)?;
    let config = settings::from_flags(&args.config, Some(&args.application))?;
    let sha256 = charm_source::bring(source, at).await?.sha256;
    let refresh =
        api::Refresh { application: args.application.clone(), sha256, forced: args.force_units, config };
    let refreshed = at.api.handle(refresh).await?;
    at.note_write(refreshed.revision);
    at.output.warn(&refreshed.warnings);
    at.output.note(&format!("Added charm \"{}\" to the model\n", refreshed.charm_url));
    Ok(())
}
