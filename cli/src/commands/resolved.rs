//! `resolved UNIT…`: lets units in error state continue, by default by running the failed hook again.

use crate::arguments::parse_units;
use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{GetStatus, ResolveUnit, UnitChoice, UserPort};
use clap::Args;
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
        session.note_write(session.api.handle(ResolveUnit { unit, retry: !args.no_retry }).await?.revision);
    }
    Ok(())
}
