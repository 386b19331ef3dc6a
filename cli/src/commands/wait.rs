//! `wait --settled`: waits until no unit of the model has anything to do.
//!
//! The controller reports `idle` only for a unit whose agent would start nothing if it had received every change of the
//! model (`state::status::unit`). A status is read at the newest revision, so that the first one contains every change
//! that was acknowledged before the command started, and one settled status suffices (spec/clients.md 2.3).

use crate::command_error::CommandError;
use crate::session::CommandSession;
use crate::times;
use api::{GetStatus, Status, UnitStatus, UserPort, WaitForChange};
use clap::Args;
use state::terms::life::Life;
use state::terms::names::UnitName;
use state::terms::status::{AgentStatus, WorkloadStatus};
use std::time::Duration;
use tokio::time::timeout;

/// The state of agents is not in the store, so that the status is requested at this interval, too.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The number of units that an error names: a line of a terminal holds them.
const NAMED_MAX: usize = 5;

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Wait until no unit of the model has anything to do, and nothing is being removed
    #[arg(long, required = true)]
    pub settled: bool,
    /// Longest time to wait
    #[arg(long, value_parser = times::duration, default_value = "10m", value_name = "DURATION")]
    pub timeout: Duration,
}

pub async fn run<A: UserPort>(args: &WaitArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let mut busy = Vec::new();
    let until_settled = async {
        let mut after = None;
        loop {
            let progress = Progress::of(&session.api.handle(GetStatus).await?);
            if progress.busy.is_empty() {
                return match progress.failed.is_empty() {
                    true => Ok(()),
                    false => Err(in_error(&progress.failed)),
                };
            }
            busy = progress.busy;
            if let Ok(changed) = timeout(POLL_INTERVAL, session.api.handle(WaitForChange { after })).await {
                after = Some(changed?);
            }
        }
    };
    match timeout(args.timeout, until_settled).await {
        Ok(result) => result,
        Err(_) => Err(CommandError::new(format!("timed out waiting for {} to settle", listed(&busy)))
            .hint("see what everything waits for: pintle why")),
    }
}

/// What is left to do in a model.
struct Progress {
    /// What is not at rest.
    busy: Vec<String>,
    /// The units in error: a person, or a retry, must act.
    failed: Vec<String>,
}

impl Progress {
    fn of(status: &Status) -> Progress {
        let applications = status.applications.iter();
        let ending =
            applications.clone().filter(|(_, app)| app.life != Life::Alive).map(|(name, _)| name.clone());
        let ending: Vec<String> = ending.collect();
        let units: Vec<(&UnitName, &UnitStatus)> =
            applications.flat_map(|(_, app)| &app.units).map(|(name, unit)| (name, &**unit)).collect();
        let names = |is_one: &dyn Fn(&UnitStatus) -> bool| -> Vec<String> {
            units.iter().filter(|(_, unit)| is_one(unit)).map(|(name, _)| name.to_string()).collect()
        };
        let has_failed = |unit: &UnitStatus| {
            unit.workload.current == WorkloadStatus::Error && unit.agent.current == AgentStatus::Idle
        };
        let is_busy = |unit: &UnitStatus| {
            !has_failed(unit) && (unit.agent.current != AgentStatus::Idle || unit.life != Life::Alive)
        };
        Progress { busy: [names(&is_busy), ending].concat(), failed: names(&has_failed) }
    }
}

fn in_error(failed: &[String]) -> CommandError {
    let (are, first) = (if failed.len() == 1 { "is" } else { "are" }, &failed[0]);
    CommandError::new(format!("{} {are} in error; nothing else has anything to do", listed(failed)))
        .hint(format!("see why: pintle why {first}"))
}

/// `web/0, web/1 and 3 more`
fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 if names.is_empty() => "the model".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
