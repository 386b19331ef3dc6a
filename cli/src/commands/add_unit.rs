//! `add-unit APP`: adds units to an application.

use crate::command_error::CommandError;
use crate::commands::change_storage;
use crate::commands::deploy_charm::require_machines;
use crate::session::CommandSession;
use api::{AddUnits, UserPort};
use clap::Args;

/// Arguments of `add-unit`.
#[derive(Debug, Args)]
pub struct AddUnitArgs {
    /// Name of the application
    pub application: String,
    /// Number of units
    #[arg(
        short = 'n', long, default_value_t = 1, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub num_units: u32,
    /// Machines to use, for example 0 or 0,1; each further unit gets a new machine
    #[arg(long, value_delimiter = ',', value_name = "MACHINE")]
    pub to: Vec<String>,
    /// Existing storage for the unit, which is added to the machine of this storage
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub attach_storage: Vec<String>,
}

pub async fn run<A: UserPort>(args: &AddUnitArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    require_machines(&args.to)?;
    let attach = change_storage::ids(&args.attach_storage)?;
    let add = |units, to| AddUnits {
        attach_storage: attach.clone(),
        application: args.application.clone(),
        units,
        to,
    };
    // Existing storage is for one unit: the number and the machine are in one request, which is refused as a whole.
    if !attach.is_empty() {
        let to = args.to.first().cloned();
        session.record_write(session.api.handle(add(args.num_units, to)).await?.revision);
        return Ok(());
    }
    let placed: Vec<&String> = args.to.iter().take(args.num_units as usize).collect();
    for &machine in &placed {
        session.record_write(session.api.handle(add(1, Some(machine.clone()))).await?.revision);
    }
    let rest = args.num_units - placed.len() as u32;
    if rest > 0 {
        session.record_write(session.api.handle(add(rest, None)).await?.revision);
    }
    Ok(())
}
