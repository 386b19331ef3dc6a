//! `add-unit APP`.

use crate::command_error::Failure;
use crate::session::Session;
use api::{AddUnits, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct AddUnit {
    pub application: String,
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub num_units: u32,
    /// Machines to use, like 0 or 0,1; each further unit gets one of its own
    #[arg(long, value_delimiter = ',', value_name = "MACHINE")]
    pub to: Vec<String>,
    #[arg(long, hide = true)]
    pub attach_storage: Vec<String>,
}

pub async fn run<A: UserPort>(args: &AddUnit, at: &Session<A>) -> Result<(), Failure> {
    let add = |units, to| AddUnits { application: args.application.clone(), units, to };
    let placed: Vec<&String> = args.to.iter().take(args.num_units as usize).collect();
    for &place in &placed {
        at.note_write(at.api.handle(add(1, Some(place.clone()))).await?.revision);
    }
    let rest = args.num_units - placed.len() as u32;
    if rest > 0 {
        at.note_write(at.api.handle(add(rest, None)).await?.revision);
    }
    Ok(())
}
