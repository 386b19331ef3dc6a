//! `refresh APP [--path CHARM]`: upgrades an application to another revision of its charm.

use crate::arguments::ignored_flags;
use crate::charm_search;
use crate::command_error::CommandError;
use crate::commands::resource_files::ResourceFiles;
use crate::commands::{charm_source, resources, settings};
use crate::session::CommandSession;
use api::{GetStatus, KeptRevision, Refreshed, UserPort};
use charms::read::TargetHost;
use clap::Args;
use host::shell::quote;
use state::terms::refusal::EntityKind;
use std::path::Path;

/// Arguments of `refresh`.
#[derive(Debug, Args)]
pub struct RefreshArgs {
    /// Name of the application
    pub application: String,
    /// Path of a charm folder or a .charm file; by default the one from which the charm was deployed
    #[arg(long, visible_alias = "switch", value_name = "CHARM")]
    pub path: Option<String>,
    /// A setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    /// A file for a resource of the charm; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub resource: Vec<String>,
    /// Upgrade even if the charm is packed for another architecture, or requires a feature that is not offered (assumes)
    #[arg(long)]
    pub force: bool,
    /// Also upgrade units in error state
    #[arg(long)]
    pub force_units: bool,
    /// Let the charm read the credential of its cloud
    #[arg(long)]
    pub trust: bool,
    #[arg(long, hide = true)]
    pub force_base: bool,
    #[arg(long, hide = true)]
    pub force_series: bool,
    #[arg(long, hide = true)]
    pub base: Option<String>,
    #[arg(long, hide = true)]
    pub storage: Vec<String>,
    #[command(flatten)]
    pub ignored: charm_source::IgnoredSourceArgs,
}

impl RefreshArgs {
    /// The warnings about flags that have no effect.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.ignored.warnings();
        warnings.extend(ignored_flags([
            ("--base", self.base.is_some(), "the units keep their machines, and these their base"),
            (
                "--storage",
                !self.storage.is_empty(),
                "the application keeps its storage directives; pintle add-storage adds storage to a unit",
            ),
        ]));
        warnings
    }
}

pub async fn run<A: UserPort>(args: &RefreshArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    session.output.warn(&args.warnings());
    if args.path.is_none() && !args.resource.is_empty() && args.config.is_empty() && !args.trust {
        return resources::attach_to(&args.application, &args.resource, session).await;
    }
    let place = match &args.path {
        Some(path) => charm_search::find(path, &session.dir)?,
        None => match session.notes.charm_place(&session.model, &args.application) {
            Some(place) => place,
            None => return Err(unknown_place(&args.application, session).await?),
        },
    };
    let target = target_host(&args.application, session).await?;
    let force = args.force || args.force_base || args.force_series;
    let source = charm_source::load(&place, force, target, session)?;
    let config = settings::from_flags(&args.config, Some(&args.application))?;
    let resources = ResourceFiles::check(&args.resource, &source.charm.resources)?;
    let sha256 = charm_source::upload(source, session).await?.sha256;
    let resources = resources.upload(session).await?;
    let refresh = api::Refresh {
        application: args.application.clone(),
        sha256,
        forced: args.force_units,
        only_if_changed: false,
        config,
        trusted: args.trust,
        resources,
    };
    let refreshed = session.api.handle(refresh).await?;
    session.record_write(refreshed.revision);
    session.notes.store_charm_place(&session.model, &args.application, &place);
    let Refreshed { charm, kept } = refreshed.answer;
    session.output.print_remark(&format!("Added charm \"{}\" to the model\n", charm.url));
    session.output.print_remark(&session.output.complete(&kept_text(args, &place, &kept)));
    Ok(())
}

/// The hosts of the machines of an application's units.
async fn target_host<A: UserPort>(
    application: &str,
    session: &CommandSession<A>,
) -> Result<TargetHost, CommandError> {
    let status = session.api.handle(GetStatus).await?;
    let units = status.applications.get(application).into_iter().flat_map(|found| found.units.values());
    Ok(charm_source::target_host(units.map(|unit| &unit.machine), &status))
}

/// The error for an application whose charm has no recorded place, or that does not exist.
async fn unknown_place<A: UserPort>(
    application: &str,
    session: &CommandSession<A>,
) -> Result<CommandError, CommandError> {
    if !session.api.handle(GetStatus).await?.applications.contains_key(application) {
        return Ok(CommandError::not_found(EntityKind::Application, application));
    }
    let dir = session.dir.path().display();
    let text = format!(
        "cannot refresh {application}: it is not recorded in {dir} from where its charm was deployed"
    );
    Ok(CommandError::new(text).hint("give the path of the new charm: --path DIR-OR-FILE"))
}

/// Which units in error keep their revision, and how they are included; empty if there are none. As in Juju, a unit that is
/// included stays in error until it is resolved.
fn kept_text(args: &RefreshArgs, place: &Path, kept: &[KeptRevision]) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for KeptRevision { unit, charm_url } in kept {
        text += &format!("{unit} is in error and keeps {charm_url} until its error has ended\n");
    }
    let path = quote(&place.to_string_lossy());
    text += &format!(
        "to refresh units in error, too: pintle refresh {} --path {path} --force-units\n",
        args.application
    );
    let units: Vec<String> = kept.iter().map(|kept| kept.unit.to_string()).collect();
    text + &format!("they stay in error with it until: pintle resolved {}\n", units.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use state::terms::names::UnitName;
    use test_support::golden::compare;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        args: RefreshArgs,
    }

    #[test]
    fn units_that_keep_their_revision_are_named_with_the_flag_that_includes_them() {
        let args = Parsed::parse_from(["pintle", "web", "--path", "./my charm"]).args;
        let kept =
            |number| KeptRevision { unit: UnitName::new("web", number), charm_url: "local:web-0".to_owned() };
        compare("commands/refresh_kept.txt", &kept_text(&args, Path::new("./my charm"), &[kept(0), kept(2)]));
        assert_eq!(kept_text(&args, Path::new("."), &[]), "");
    }
}
