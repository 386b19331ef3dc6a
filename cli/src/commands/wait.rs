//! `wait --settled`: waits until no unit of the model has anything to do, and no application or unit is being removed.
//!
//! Of units with an agent, the controller reports as `idle` only one whose agent would start nothing if it had received every
//! change of the model (`state::status::unit`). A status is read at the newest revision, so that the first one contains every
//! change that was acknowledged before the command started, and one settled status suffices (spec/clients.md 2.3).

use crate::command_error::CommandError;
use crate::session::CommandSession;
use crate::times;
use api::{GetStatus, Status, UnitStatus, UserPort, WaitForChange};
use clap::Args;
use state::status::settled::{MachineProgress, ModelProgress, UnitProgress};
use state::terms::names::UnitName;
use std::time::Duration;
use tokio::time::timeout;

/// The state of agents is not in the store, so that the status is requested at this interval, too.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The number of units that an error names: a line of a terminal holds them.
const NAMED_MAX: usize = 5;

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Wait until no unit of the model has anything to do, and no application or unit is being removed
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
            let status = session.api.handle(GetStatus).await?;
            let progress = progress_of(&status);
            if progress.is_settled() {
                return outcome(&progress, &status);
            }
            busy = names(&progress.busy);
            busy.extend(progress.ending);
            busy.extend(progress.ending_machines.iter().map(|name| format!("machine {name}")));
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

fn progress_of(status: &Status) -> ModelProgress {
    let applications = status.applications.iter();
    let units = applications.clone().flat_map(|(_, app)| &app.units);
    let progress = |unit: &UnitStatus| {
        let machine = status.machines.get(&unit.machine).map(|machine| &machine.agent.message);
        UnitProgress::of_unit_on(machine, unit.life, unit.workload.current, unit.agent.current)
    };
    let has_failed_unit = |machine: &String| {
        let mut here = units.clone().filter(|(_, unit)| unit.machine == *machine);
        here.any(|(_, unit)| progress(unit) == UnitProgress::Failed)
    };
    let machines = status.machines.iter().map(|(name, machine)| {
        (
            name,
            MachineProgress {
                life: machine.life,
                has_failed_unit: !machine.life.is_alive() && has_failed_unit(name),
            },
        )
    });
    ModelProgress::of(
        applications.map(|(name, app)| (name, app.life)),
        machines,
        units.clone().map(|(name, unit)| (name, progress(unit))),
    )
}

/// How the wait ends when only a person can continue, if anything is left at all.
fn outcome(progress: &ModelProgress, status: &Status) -> Result<(), CommandError> {
    if !progress.failed.is_empty() {
        return Err(in_error(&progress.failed));
    }
    let Some(first) = progress.unenrolled.first() else { return Ok(()) };
    let mut units = status.applications.values().flat_map(|application| &application.units);
    let machine = units.find(|(name, _)| *name == first).map_or("", |(_, unit)| &unit.machine);
    let (wait, units) =
        (if progress.unenrolled.len() == 1 { "waits" } else { "wait" }, names(&progress.unenrolled));
    let text = format!(
        "{} {wait} for machine {machine}, which nobody has enrolled; nothing else has anything to do",
        listed(&units)
    );
    Err(CommandError::new(text).hint(format!("see how: pintle why machine {machine}")))
}

fn names(units: &[UnitName]) -> Vec<String> {
    units.iter().map(ToString::to_string).collect()
}

fn in_error(failed: &[UnitName]) -> CommandError {
    let (are, first) = (if failed.len() == 1 { "is" } else { "are" }, &failed[0]);
    CommandError::new(format!("{} {are} in error; nothing else has anything to do", listed(&names(failed))))
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
