//! `resolved UNIT…`.

use crate::command_error::Failure;
use crate::session::Session;
use api::{GetStatus, ResolvedRequest, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct Resolved {
    #[arg(required_unless_present = "all")]
    pub units: Vec<String>,
    /// All units in error
    #[arg(long, conflicts_with = "units")]
    pub all: bool,
    /// Count the hook as done instead of running it again
    #[arg(long)]
    pub no_retry: bool,
}

pub async fn run<A: UserPort>(args: &Resolved, at: &Session<A>) -> Result<(), Failure> {
    let mut units = args.units.clone();
    if args.all {
        let status = at.api.handle(GetStatus).await?;
        let all = status.applications.into_values().flat_map(|app| app.units);
        let failed = all.filter(|(_, unit)| unit.workload.current == "error");
        units = failed.map(|(name, _)| name.to_string()).collect();
    }
    for unit in units {
        at.note_write(
            at.api.handle(ResolvedRequest { unit: unit.to_owned(), retry: !args.no_retry }).await?.revision,
        );
    }
    Ok(())
}
