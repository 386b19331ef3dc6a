//! `destroy-model NAME`: asks for confirmation, destroys the model with its storage, and waits until it is removed.
//!
//! After confirmation the model is addressed by its UUID: a new model of the same name is never affected.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::removal::{self, Confirmation};
use crate::commands::switch;
use crate::data_dir::DataDir;
use crate::session::{CommandSession, model_name};
use crate::times::{self, Zone, now_ms};
use api::error::ErrorCode;
use api::{DryRunDestroyModel, GetStatus, ListStorage, Status, UserPort};
use clap::Args;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Arguments of `destroy-model`.
#[derive(Debug, Args)]
#[command(mut_arg("destroy_storage", |flag| flag.help("Accepted as in Juju: storage is always removed with its model")))]
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
        let dry_run = session.api.in_model(name).handle(DryRunDestroyModel { force }).await?;
        let (zone, flags) = (Zone::new(false), session.output.flags());
        let text = crate::render::dry_run::text(&dry_run, force, now_ms(), &zone, flags);
        return session.output.print(&text);
    }
    // From here on the model is addressed by UUID: another model may be created under its name.
    let status = session.api.in_model(name).handle(GetStatus).await?;
    let uuid = status.model.uuid.to_string();
    let storage = session.api.in_model(&uuid).handle(ListStorage).await?;
    if args.release_storage && !args.removal.destroy_storage && !storage.is_empty() {
        return Err(release_refusal(&status.model.name));
    }
    let mut entities = vec![format!("model {}", status.model.name)];
    entities.extend(contents(&status));
    entities.extend(storage.keys().map(|id| format!("storage {id} with its content")));
    let confirmation = Confirmation::ModelName(&status.model.name);
    removal::ask(&entities, confirmation, &args.removal, &session.output)?;
    let changed = session.api.in_model(&uuid).handle(api::DestroyModel { force }).await?;
    session.output.warn_of(&changed.warnings);
    session.notes.delete_model(&status.model.name);
    wait_until_removed(&uuid, &status.model.name, args.timeout, session).await?;
    switch::clear_current(dir, &status.model.name)
}

/// Why `--release-storage` is refused for a model with storage, whose content would be lost.
fn release_refusal(model: &str) -> CommandError {
    let text = format!("cannot release the storage of model {model}: storage is removed with its model");
    CommandError::new(text).hint("copy what is needed, then use --destroy-storage instead")
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
