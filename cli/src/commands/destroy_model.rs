//! `destroy-model NAME`: asks for confirmation, destroys the model, and waits until it is removed.
//!
//! After confirmation the model is addressed by its UUID: a new model of the same name is never affected.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::{removal, switch};
use crate::data_dir::DataDir;
use crate::session::{CommandSession, model_name};
use crate::times::{self, Zone, now_ms};
use api::error::ErrorCode;
use api::{DRY_RUN_TARGETS_MAX, DryRun, DryRunRemoval, Force, GetStatus, RemovalTarget, Status, UserPort};
use clap::Args;
use state::terms::cause::Entity;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Arguments of `destroy-model`.
#[derive(Debug, Args)]
pub struct DestroyModelArgs {
    /// Name of the model
    pub name: String,
    #[command(flatten)]
    pub removal: RemovalArguments,
    #[arg(long, hide = true)]
    pub release_storage: bool,
    /// Longest time to wait until the model is removed; its removal then continues in the background
    #[arg(short, long, value_parser = times::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

/// Interval between two requests for the status of the model.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub async fn run<A: UserPort>(
    args: &DestroyModelArgs,
    session: &CommandSession<A>,
    dir: &DataDir,
) -> Result<(), CommandError> {
    let force = args.removal.force.mode()?;
    let name = model_name(&args.name)?;
    if args.removal.dry_run {
        let status = session.api.in_model(name).handle(GetStatus).await?;
        let removed_last = RemovedLast::of(&status);
        let is_part = status.applications.len() > DRY_RUN_TARGETS_MAX;
        let removed = status.applications.into_keys().map(RemovalTarget::Application);
        let mut dry_run = session
            .api
            .in_model(name)
            .handle(DryRunRemoval { removed: removed.take(DRY_RUN_TARGETS_MAX).collect(), force })
            .await?;
        dry_run.truncated |= is_part;
        add_removed_last(&mut dry_run, &removed_last, force);
        let now = (now_ms(), &Zone::new(false));
        return session.output.print(&crate::render::dry_run::text(&dry_run, force, now));
    }
    // From here on the model is addressed by UUID: another model may be created under its name.
    let status = session.api.in_model(name).handle(GetStatus).await?;
    let entities = [vec![format!("model {}", status.model.name)], contents(&status)].concat();
    if !removal::ask(&entities, &args.removal, &session.output)? {
        return Ok(());
    }
    let uuid = status.model.uuid.to_string();
    let changed = session.api.in_model(&uuid).handle(api::DestroyModel { force }).await?;
    session.output.warn(&changed.warnings);
    wait_until_removed(&uuid, &status.model.name, args.timeout, session).await?;
    switch::clear_current(dir, &status.model.name)
}

/// What is removed last: the model, and its machines, each with the units on it.
struct RemovedLast {
    model: Entity,
    machines: BTreeMap<String, Vec<Entity>>,
}

impl RemovedLast {
    fn of(status: &Status) -> RemovedLast {
        let machines = status.machines.keys().map(|name| (name.clone(), Vec::new()));
        let mut machines: BTreeMap<String, Vec<Entity>> = machines.collect();
        for (name, unit) in status.applications.values().flat_map(|application| &application.units) {
            machines.entry(unit.machine.clone()).or_default().push(Entity::Unit(name.clone()));
        }
        RemovedLast { model: Entity::Model(status.model.name.clone()), machines }
    }
}

/// Adds the machines whose units are all removed, and the model if nothing remains in it. Machines that the dry run
/// already lists are not added again.
fn add_removed_last(dry_run: &mut DryRun, removed_last: &RemovedLast, force: Force) {
    let all: BTreeSet<&Entity> =
        dry_run.removed_eventually.iter().chain(&dry_run.removed_immediately).collect();
    let are_removed = |units: &Vec<Entity>| units.iter().all(|unit| all.contains(unit));
    let machines = removed_last.machines.iter().filter(|(_, units)| are_removed(units));
    let machines: Vec<Entity> = machines.map(|(name, _)| Entity::Machine(name.clone())).collect();
    let machines: Vec<Entity> = machines.into_iter().filter(|machine| !all.contains(machine)).collect();
    let whole =
        force != Force::No || dry_run.blockers.is_empty() && removed_last.machines.values().all(are_removed);
    dry_run.removed_eventually.extend(machines);
    dry_run.removed_eventually.extend(whole.then(|| removed_last.model.clone()));
}

/// The applications and machines that are removed with the model.
fn contents(status: &Status) -> Vec<String> {
    let applications = status.applications.keys().map(|name| format!("application {name}"));
    applications.chain(status.machines.keys().map(|name| format!("machine {name}"))).collect()
}

/// Waits until the model is removed. Prints what remains in it whenever that changes.
async fn wait_until_removed<A: UserPort>(
    uuid: &str,
    name: &str,
    timeout: Option<Duration>,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let started = Instant::now();
    let mut printed = String::new();
    loop {
        let remaining = match session.api.in_model(uuid).handle(GetStatus).await {
            Ok(status) => remaining_text(&status),
            Err(error) if error.code == ErrorCode::NotFound => {
                session.output.print_remark(&format!("Model {name} destroyed\n"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if remaining != printed {
            session.output.print_remark(&format!("Waiting for model {name} to be removed{remaining}\n"));
            printed = remaining;
        }
        if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            let failure = CommandError::new(format!("model {name} is still being removed{printed}"));
            return Err(failure.hint(format!("to see what it waits for: pintle why model -m {name}")));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// `, 2 applications, 3 machines`.
fn remaining_text(status: &Status) -> String {
    let units: usize = status.applications.values().map(|application| application.units.len()).sum();
    let counts =
        [(status.applications.len(), "application"), (units, "unit"), (status.machines.len(), "machine")];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!(", {count} {what}{}", if count == 1 { "" } else { "s" })).collect()
}
