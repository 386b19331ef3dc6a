//! Uploads a charm and deploys it as an application, for `deploy CHARM [APP]` and for each application of a bundle.
//!
//! The first unit, and all units without a machine of `--to`, are part of the deploy request. Each further machine of
//! `--to` is a request of its own.

use crate::arguments::ignored_flags;
use crate::charm_search;
use crate::command_error::CommandError;
use crate::commands::resource_files::ResourceFiles;
use crate::commands::{bases, change_storage, charm_source, constraints, settings};
use crate::session::CommandSession;
use api::error::ApiError;
use api::{AddUnits, GetStatus, UserPort};
use charms::declared_name;
use charms::read::TargetHost;
use clap::Args;
use state::charm::Base;
use state::documents::refusal::Refusal;
use state::terms::refusal::application::ApplicationRefusal;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `deploy`.
#[derive(Debug, Args)]
pub struct DeployArgs {
    /// Path of a charm folder, a .charm file, or the YAML file of a bundle, or the name of a charm in a charm directory
    /// (PINTLE_CHARMS, up --charms)
    pub charm: String,
    /// Name of the application; by default the name of the charm
    pub application: Option<String>,
    /// A setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    /// Number of units
    #[arg(short = 'n', long, default_value_t = 1, allow_negative_numbers = true)]
    pub num_units: u32,
    /// Machines to use, for example 0 or 0,1; each further unit gets a new machine
    #[arg(long, value_delimiter = ',', value_name = "MACHINE")]
    pub to: Vec<String>,
    /// Operating system of the new machines, for example ubuntu@22.04
    #[arg(long, value_name = "BASE", value_parser = bases::parse)]
    pub base: Option<Base>,
    /// A file for a resource of the charm; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub resource: Vec<String>,
    /// Deploy even if the charm is packed for another architecture, or requires a feature that is not offered (assumes)
    #[arg(long)]
    pub force: bool,
    /// Let the charm read the credential of its cloud
    #[arg(long)]
    pub trust: bool,
    /// Storage of each unit: the pool, the number and the size of its instances; may be repeated
    #[arg(long, value_name = "NAME=[POOL,][COUNT,][SIZE]")]
    pub storage: Vec<String>,
    /// Existing storage for the unit, which is added to the machine of this storage
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub attach_storage: Vec<String>,
    /// Constraints of the machines, stored and shown; only arch is enforced; may be repeated
    #[arg(long, value_name = "KEY=VALUE ...")]
    pub constraints: Vec<String>,
    /// Show what would be deployed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A file with changes of the bundle; may be repeated
    #[arg(long, value_name = "FILE")]
    pub overlay: Vec<PathBuf>,
    /// Machines of the model for those of the bundle: `existing` for those of the same names, and BUNDLE=MODEL pairs
    #[arg(long, value_delimiter = ',', value_name = "MACHINES")]
    pub map_machines: Vec<String>,
    #[command(flatten)]
    pub ignored: IgnoredArgs,
}

/// Flags of Juju's `deploy` that are answered with a warning.
#[derive(Debug, Default, Args)]
pub struct IgnoredArgs {
    #[arg(long, hide = true)]
    pub series: Option<String>,
    #[arg(long, hide = true)]
    pub device: Vec<String>,
    #[command(flatten)]
    pub source: charm_source::IgnoredSourceArgs,
}

impl IgnoredArgs {
    /// The warnings about the flags that were given.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.source.warnings();
        warnings.extend(ignored_flags([
            ("--device", !self.device.is_empty(), "only Kubernetes applications have devices"),
            (
                "--series",
                self.series.is_some(),
                "--base chooses the base of new machines, for example ubuntu@22.04",
            ),
        ]));
        warnings
    }
}

/// Deploys a charm with these settings, in addition to those of the arguments.
///
/// # Errors
/// If the charm or an argument is invalid, or the controller refuses the deployment.
pub async fn run<A: UserPort>(
    args: &DeployArgs,
    settings: BTreeMap<String, String>,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    if !args.overlay.is_empty() {
        return Err(CommandError::usage(format!("cannot use --overlay: {:?} is not a bundle", args.charm)));
    }
    if !args.map_machines.is_empty() {
        let text = format!("cannot use --map-machines: {:?} is not a bundle", args.charm);
        return Err(CommandError::usage(text));
    }
    session.output.warn(&args.ignored.warnings());
    require_machines(&args.to)?;
    let limits = constraints::parse(&args.constraints, session)?;
    let place = charm_search::find(&args.charm, &session.dir)?;
    // before the Python packages of a folder are installed, which may take minutes
    if let Some(application) = args.application.clone().or_else(|| declared_name(&place)) {
        require_new(&application, session).await?;
    }
    let target = target_host(args, session).await?;
    let source = charm_source::load(&place, args.force, target, session)?;
    let charm = source.charm.name.clone();
    let application = args.application.as_deref().unwrap_or(&charm).to_owned();
    let mut config = settings::from_flags(&args.config, Some(&application))?;
    config.extend(settings);
    let resources = ResourceFiles::check(&args.resource, &source.charm.resources)?;
    let base = bases::requested(&session.dir, args.base.as_ref(), &source.charm)?;
    let has_machines = !source.charm.subordinate;
    if args.base.is_some() || has_machines && !source.charm.bases.is_empty() {
        let real = match args.to.first() {
            Some(machine) => bases::of_machine(session, machine).await?,
            None => bases::of_new_machine(&session.dir, base.as_ref())?,
        };
        let unavailable = bases::warning(args.base.as_ref(), real.as_ref());
        let other = || bases::charm_warning(&source.charm, real.as_ref()).filter(|_| has_machines);
        session.output.warn(&Vec::from_iter(unavailable.or_else(other)));
    }
    // before anything is uploaded
    let storage = change_storage::directives(&args.storage)?;
    let attach_storage = change_storage::ids(&args.attach_storage)?;
    if args.dry_run {
        require_new(&application, session).await?;
        session
            .output
            .print_remark(&format!("Would deploy \"{application}\" from local charm \"{charm}\"\n"));
        return Ok(());
    }
    let subordinate = source.charm.subordinate;
    let sha256 = charm_source::upload(source, session).await?.sha256;
    let resources = resources.upload(session).await?;
    // Each machine of --to gets one unit. Units without a machine are added together with the first unit.
    let further = args.to.iter().skip(1).take(args.num_units.saturating_sub(1) as usize);
    let further: Vec<&String> = if subordinate { Vec::new() } else { further.collect() };
    let units = args.num_units - further.len() as u32;
    let deploy = api::Deploy {
        storage,
        attach_storage,
        application: Some(application.clone()),
        sha256,
        units,
        to: args.to.first().cloned(),
        config,
        trusted: args.trust,
        base,
        constraints: limits,
        resources,
        fake: false,
    };
    let deployed = session.api.handle(deploy).await?;
    session.record_write(deployed.revision);
    session.notes.store_charm_place(&session.model, &application, &place);
    let charm_text = format!("local charm \"{charm}\", revision {}", deployed.answer.charm.revision);
    session
        .output
        .print_remark(&format!("Located {charm_text}\nDeploying \"{application}\" from {charm_text}\n"));
    for machine in further {
        let add = AddUnits {
            attach_storage: Vec::new(),
            application: application.clone(),
            units: 1,
            to: Some(machine.clone()),
        };
        session.record_write(session.api.handle(add).await?.revision);
    }
    session.output.print_hint(&format!("to follow it: pintle status {application} --watch 2s"));
    Ok(())
}

/// The hosts of the machines of the units.
async fn target_host<A: UserPort>(
    args: &DeployArgs,
    session: &CommandSession<A>,
) -> Result<TargetHost, CommandError> {
    let has_new_machines = args.to.len() < args.num_units as usize;
    if args.to.is_empty() || has_new_machines {
        return Ok(TargetHost::This);
    }
    let machines = args.to.iter().take(args.num_units as usize);
    Ok(charm_source::target_host(machines, &session.api.handle(GetStatus).await?))
}

/// Refuses the placements of Juju in new containers of machines, such as `lxd` and `lxd:0`.
///
/// # Errors
/// A usage error that names the placement.
pub fn require_machines(to: &[String]) -> Result<(), CommandError> {
    let is_container = |to: &&String| matches!(to.split(':').next(), Some("lxd" | "kvm"));
    let Some(container) = to.iter().find(is_container) else { return Ok(()) };
    let text = format!("cannot place a unit in {container:?}: machines have no containers here");
    Err(CommandError::usage(text)
        .hint("name a machine, for example --to 0; each unit gets a machine of its own otherwise"))
}

/// Returns the error of the deployment of an application whose name exists already.
async fn require_new<A: UserPort>(
    application: &str,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    if !status.applications.contains_key(application) {
        return Ok(());
    }
    let exists = ApplicationRefusal::AlreadyExists { name: application.to_owned() };
    Err(ApiError::from(Refusal::new(exists)).into())
}
