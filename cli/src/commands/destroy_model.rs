//! `destroy-model NAME`: asks, and waits until the model is gone.

use crate::arguments::Removal;
use crate::command_error::Failure;
use crate::commands::{removal, switch};
use crate::data_dir::DataDir;
use crate::session::{Session, model_name};
use crate::times::{self, Zone, now_ms};
use api::error::ErrorCode;
use api::{DRY_RUN_TARGETS_MAX, DryRunRemoval, Force, Forecast, GetStatus, RemovalTarget, Status, UserPort};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Debug, Args)]
pub struct DestroyModel {
    pub name: String,
    #[command(flatten)]
    pub removal: Removal,
    #[arg(long, hide = true)]
    pub release_storage: bool,
    /// Wait no longer than this until it is gone; its removal goes on
    #[arg(short, long, value_parser = times::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

/// Between two looks at what is left.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub async fn run<A: UserPort>(args: &DestroyModel, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let force = args.removal.force.chosen()?;
    let name = model_name(&args.name)?;
    if args.removal.dry_run {
        let status = at.api.in_model(name).handle(GetStatus).await?;
        let rest = Rest::of(&status);
        let is_part = status.applications.len() > DRY_RUN_TARGETS_MAX;
        let removed = status.applications.into_keys().map(RemovalTarget::Application);
        let mut forecast = at
            .api
            .in_model(name)
            .handle(DryRunRemoval { removed: removed.take(DRY_RUN_TARGETS_MAX).collect(), force })
            .await?;
        forecast.more |= is_part;
        rest_gone(&mut forecast, &rest, force);
        let now = (now_ms(), &Zone::new(false));
        return at.output.say(&crate::render::dry_run::text(&forecast, force, now));
    }
    // The one that is meant now, whatever is made under its name while it goes.
    let status = at.api.in_model(name).handle(GetStatus).await?;
    let things = [vec![format!("model {}", status.model.name)], contents(&status)].concat();
    if !removal::agreed(&things, &args.removal, &at.output)? {
        return Ok(());
    }
    let uuid = status.model.uuid.to_string();
    let changed = at.api.in_model(&uuid).handle(api::DestroyModel { force }).await?;
    at.output.warn(&changed.warnings);
    gone(&uuid, &status.model.name, args.timeout, at).await?;
    switch::leave(dir, &status.model.name)
}

/// What goes last: the model, and its machines, each with the units that are on it.
struct Rest {
    model: String,
    machines: BTreeMap<String, Vec<String>>,
}

impl Rest {
    fn of(status: &Status) -> Rest {
        let machines = status.machines.keys().map(|name| (name.clone(), Vec::new()));
        let mut machines: BTreeMap<String, Vec<String>> = machines.collect();
        for (name, unit) in status.applications.values().flat_map(|application| &application.units) {
            machines.entry(unit.machine.clone()).or_default().push(format!("unit {name}"));
        }
        Rest { model: format!("model {}", status.model.name), machines }
    }
}

/// Foretold with the applications, unless something stays. A machine that would be left without a unit is so already.
fn rest_gone(forecast: &mut Forecast, rest: &Rest, force: Force) {
    let all: BTreeSet<&String> = forecast.gone.iter().chain(&forecast.at_once).collect();
    let goes = |units: &Vec<String>| units.iter().all(|unit| all.contains(unit));
    let machines = rest.machines.iter().filter(|(_, units)| goes(units));
    let machines: Vec<String> = machines.map(|(name, _)| format!("machine {name}")).collect();
    let machines: Vec<String> = machines.into_iter().filter(|machine| !all.contains(machine)).collect();
    let whole = force != Force::No || forecast.blocked.is_empty() && rest.machines.values().all(goes);
    forecast.gone.extend(machines);
    forecast.gone.extend(whole.then(|| rest.model.clone()));
}

/// What goes with the model.
fn contents(status: &Status) -> Vec<String> {
    let applications = status.applications.keys().map(|name| format!("application {name}"));
    applications.chain(status.machines.keys().map(|name| format!("machine {name}"))).collect()
}

/// Waits until the model is gone, and says what is left in it whenever that is less.
async fn gone<A: UserPort>(
    uuid: &str,
    name: &str,
    timeout: Option<Duration>,
    at: &Session<A>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut said = String::new();
    loop {
        let left = match at.api.in_model(uuid).handle(GetStatus).await {
            Ok(status) => left(&status),
            Err(error) if error.code == ErrorCode::NotFound => {
                at.output.note(&format!("Model {name} destroyed\n"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if left != said {
            at.output.note(&format!("Waiting for model {name} to be removed{left}\n"));
            said = left;
        }
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            let failure = Failure::new(format!("model {name} is still being removed{said}"));
            return Err(failure.hint(format!("what holds it: pintle why model -m {name}")));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// `, 2 applications, 3 machines`.
fn left(status: &Status) -> String {
    let units: usize = status.applications.values().map(|application| application.units.len()).sum();
    let counts =
        [(status.applications.len(), "application"), (units, "unit"), (status.machines.len(), "machine")];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!(", {count} {what}{}", if count == 1 { "" } else { "s" })).collect()
}
