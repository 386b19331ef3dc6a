//! `remove-unit UNIT…`, or `remove-unit APP --num-units N`: removes units.

use crate::arguments::{RemovalArguments, parse_units};
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{GetStatus, RemovalTarget, RemoveUnit, UserPort};
use clap::Args;
use state::terms::names::UnitName;
use state::terms::refusal::EntityKind;

/// Arguments of `remove-unit`.
#[derive(Debug, Args)]
pub struct RemoveUnitArgs {
    /// Names of units, or one application with --num-units
    #[arg(required = true)]
    pub units: Vec<String>,
    /// Number of units of the application to remove, newest first
    #[arg(long)]
    pub num_units: Option<usize>,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

pub async fn run<A: UserPort>(
    args: &RemoveUnitArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let units = match (args.num_units, &args.units[..]) {
        (None, units) => parse_units(units)?,
        (Some(count), [application]) => newest(application, count, session).await?,
        (Some(_), _) => return Err(CommandError::usage("--num-units requires exactly one application")),
    };
    let destroy_storage = args.removal.destroy_storage;
    let request = async |unit, force| session.api.handle(RemoveUnit { destroy_storage, unit, force }).await;
    removal::remove_each("unit", &units, RemovalTarget::Unit, &args.removal, session, request).await
}

/// The names of the `count` newest units of an application.
async fn newest<A: UserPort>(
    application: &str,
    count: usize,
    session: &CommandSession<A>,
) -> Result<Vec<UnitName>, CommandError> {
    let status = session.api.handle(GetStatus).await?;
    let found = status.applications.get(application);
    let found = found.ok_or_else(|| CommandError::not_found(EntityKind::Application, application))?;
    let alive = found.units.iter().filter(|(_, unit)| unit.life.is_alive());
    let units: Vec<UnitName> = alive.rev().take(count).map(|(name, _)| name.clone()).collect();
    if units.len() < count {
        let have = units.len();
        return Err(CommandError::new(format!(
            "cannot remove {count} units of {application}: it has {have}"
        )));
    }
    Ok(units)
}
