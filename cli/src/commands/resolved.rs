//! `resolved UNIT…`: lets units in error state continue, by default by running the failed hook again.

use crate::arguments::parse_units;
use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::text::cause::operation;
use api::{ErrorRevisions, GetStatus, ResolveUnit, ResolvedRun, UnitChoice, UserPort};
use clap::Args;
use state::terms::activity::Activity;
use state::terms::status::WorkloadStatus;

/// Arguments of `resolved`.
#[derive(Debug, Args)]
pub struct ResolvedArgs {
    /// Names of units
    #[arg(required_unless_present = "all")]
    pub units: Vec<String>,
    /// Resolve all units in error state
    #[arg(long, conflicts_with = "units")]
    pub all: bool,
    /// Do not run the failed hook again
    #[arg(long)]
    pub no_retry: bool,
}

pub async fn run<A: UserPort>(args: &ResolvedArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let mut units: Vec<UnitChoice> = parse_units(&args.units)?;
    if args.all {
        let status = session.api.handle(GetStatus).await?;
        let all = status.applications.into_values().flat_map(|app| app.units);
        let failed = all.filter(|(_, unit)| unit.workload.current == WorkloadStatus::Error);
        units = failed.map(|(name, _)| name.into()).collect();
    }
    for unit in units {
        let resolved = session.api.handle(ResolveUnit { unit, retry: !args.no_retry }).await?;
        session.record_write(resolved.revision);
        if let Some(run) = resolved.answer {
            session.output.print_remark(&text(&run, !args.no_retry));
        }
    }
    Ok(())
}

/// Which revision of its charm a resolved unit runs.
fn text(run: &ResolvedRun, retry: bool) -> String {
    let ResolvedRun { unit, activity, revisions } = run;
    let Some(ErrorRevisions { runs, follows }) = revisions else { return String::new() };
    let (what, unpacks) = (operation(activity), *activity == Activity::InstallCharm);
    let mut text = match retry || unpacks {
        true => format!("{unit} runs {what} again, with {runs}"),
        false => format!("{unit} skips {what} and continues with {runs}"),
    };
    if let Some(follows) = follows {
        text += &format!("; the refresh to {follows} follows once the error has ended");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::hook_name::HookName;
    use state::terms::names::UnitName;
    use test_support::golden::compare;

    #[test]
    fn the_revision_that_runs_is_named_and_the_one_that_follows() {
        let run = |activity: Activity, follows: Option<&str>| ResolvedRun {
            unit: UnitName::new("web", 0),
            activity,
            revisions: Some(ErrorRevisions {
                runs: "local:web-0".to_owned(),
                follows: follows.map(str::to_owned),
            }),
        };
        let install = || Activity::Hook { name: HookName::Install, remote_unit: None };
        let follows = Some("local:web-1");
        let texts = [
            text(&run(install(), None), true),
            text(&run(install(), follows), true),
            text(&run(install(), follows), false),
            text(&run(Activity::InstallCharm, None), false),
        ];
        compare("commands/resolved.txt", &texts.concat());
    }
}
