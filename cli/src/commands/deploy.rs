//! `deploy CHARM [APP]`.

use crate::command_error::Failure;
use crate::commands::{charm_source, settings};
use crate::session::Session;
use api::{AddUnits, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct Deploy {
    /// Path of a charm folder or a .charm file
    pub charm: String,
    /// Name of the application; the charm's name if not given
    pub application: Option<String>,
    /// A setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    #[arg(short = 'n', long, default_value_t = 1)]
    pub num_units: u32,
    /// Machines to use, like 0 or 0,1; each further unit gets one of its own
    #[arg(long, value_delimiter = ',', value_name = "MACHINE")]
    pub to: Vec<String>,
    /// Deploy although the charm was packed for something else
    #[arg(long)]
    pub force: bool,
    /// Only say what would be deployed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub ignored: IgnoredArgs,
}

/// What Juju's `deploy` takes and has no meaning here.
#[derive(Debug, Default, Args)]
pub struct IgnoredArgs {
    #[arg(long, hide = true)]
    pub attach_storage: Vec<String>,
    #[arg(long, hide = true)]
    pub base: Option<String>,
    #[arg(long, hide = true)]
    pub series: Option<String>,
    #[arg(long, hide = true)]
    pub bind: Option<String>,
    #[arg(long, hide = true)]
    pub channel: Option<String>,
    #[arg(long, hide = true)]
    pub constraints: Vec<String>,
    #[arg(long, hide = true)]
    pub device: Vec<String>,
    #[arg(long, hide = true)]
    pub overlay: Vec<String>,
    #[arg(long, hide = true)]
    pub resource: Vec<String>,
    #[arg(long, hide = true)]
    pub revision: Option<String>,
    #[arg(long, hide = true)]
    pub storage: Vec<String>,
    #[arg(long, hide = true)]
    pub trust: bool,
}

impl IgnoredArgs {
    /// The ones whose absence a charm could notice.
    fn warnings(&self) -> Vec<String> {
        let given = [
            ("--attach-storage", !self.attach_storage.is_empty()),
            ("--bind", self.bind.is_some()),
            ("--channel", self.channel.is_some()),
            ("--device", !self.device.is_empty()),
            ("--overlay", !self.overlay.is_empty()),
            ("--resource", !self.resource.is_empty()),
            ("--revision", self.revision.is_some()),
            ("--storage", !self.storage.is_empty()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(flag, _)| format!("{flag} has no effect in this version")).collect()
    }
}

pub async fn run<A: UserPort>(args: &Deploy, at: &Session<A>) -> Result<(), Failure> {
    at.output.warn(&args.ignored.warnings());
    let source = charm_source::load(&args.charm, args.force, at)?;
    let charm = source.charm.name.clone();
    let application = args.application.as_deref().unwrap_or(&charm).to_owned();
    let config = settings::from_flags(&args.config, Some(&application))?;
    if args.dry_run {
        at.output.note(&format!("Would deploy \"{application}\" from local charm \"{charm}\"\n"));
        return Ok(());
    }
    let subordinate = source.charm.subordinate;
    let sha256 = charm_source::bring(source, at).await?.sha256;
    // One place names one unit; the units without a named place come with the first.
    let further = args.to.iter().skip(1).take(args.num_units.saturating_sub(1) as usize);
    let further: Vec<&String> = if subordinate { Vec::new() } else { further.collect() };
    let units = args.num_units - further.len() as u32;
    let deploy = api::Deploy {
        application: Some(application.clone()),
        sha256,
        units,
        to: args.to.first().cloned(),
        config,
    };
    let deployed = at.api.handle(deploy).await?;
    at.note_write(deployed.revision);
    let located = format!("local charm \"{charm}\", revision {}", deployed.charm_revision);
    at.output.note(&format!("Located {located}\nDeploying \"{application}\" from {located}\n"));
    for place in further {
        let add = AddUnits { application: application.clone(), units: 1, to: Some(place.clone()) };
        at.note_write(at.api.handle(add).await?.revision);
    }
    Ok(())
}
