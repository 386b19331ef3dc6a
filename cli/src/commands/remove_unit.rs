//! `remove-unit UNIT…`, or `remove-unit APP --num-units N`.

use crate::arguments::Removal;
use crate::command_error::Failure;
use crate::commands::removal;
use crate::session::Session;
use api::{GetStatus, RemovalTarget, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct RemoveUnit {
    /// Units, or an application with --num-units
    #[arg(required = true)]
    pub units: Vec<String>,
    /// How many units of the application; the newest go
    #[arg(long)]
    pub num_units: Option<usize>,
    #[command(flatten)]
    pub removal: Removal,
}

pub async fn run<A: UserPort>(args: &RemoveUnit, at: &Session<A>) -> Result<(), Failure> {
    let units = match (args.num_units, &args.units[..]) {
        (None, units) => units.to_vec(),
        (Some(count), [application]) => newest(application, count, at).await?,
        (Some(_), _) => return Err(Failure::usage("--num-units takes one application")),
    };
    let things: Vec<String> = units.iter().map(|unit| format!("unit {unit}")).collect();
    let removed = units.iter().cloned().map(RemovalTarget::Unit).collect();
    let Some(force) = removal::begin(&things, removed, &args.removal, at).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (unit, thing) in units.iter().zip(&things) {
        let answer = at.api.handle(api::RemoveUnit { unit: unit.to_owned(), force }).await;
        failures.extend(removal::told(at, thing, force, answer));
    }
    removal::combine(failures)
}

async fn newest<A: UserPort>(
    application: &str,
    count: usize,
    at: &Session<A>,
) -> Result<Vec<String>, Failure> {
    let status = at.api.handle(GetStatus).await?;
    let found = status.applications.get(application);
    let found = found.ok_or_else(|| Failure::new(format!("application {application:?} not found")))?;
    let alive = found.units.iter().filter(|(_, unit)| unit.life.is_alive());
    let units: Vec<String> = alive.rev().take(count).map(|(name, _)| name.to_string()).collect();
    if units.len() < count {
        let have = units.len();
        return Err(Failure::new(format!("cannot remove {count} units of {application}: it has {have}")));
    }
    Ok(units)
}
