//! `scale-application APP N`: adds units, or removes the newest ones, until the application has N.
//!
//! Juju has this command for Kubernetes only. As there, a removal is not asked about: the number says what is wanted.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::{add_unit, remove_unit};
use crate::session::CommandSession;
use api::{GetStatus, UserPort};
use clap::Args;
use state::terms::refusal::EntityKind;

/// Arguments of `scale-application`.
#[derive(Debug, Args)]
pub struct ScaleApplicationArgs {
    /// Name of the application
    pub application: String,
    /// Number of units that it is to have
    pub scale: u32,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

pub async fn run<A: UserPort>(
    args: &ScaleApplicationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    let found = status.applications.get(&args.application);
    let found = found.ok_or_else(|| CommandError::not_found(EntityKind::Application, &args.application))?;
    let alive = found.units.values().filter(|unit| unit.life.is_alive()).count();
    let alive = u32::try_from(alive).unwrap_or(u32::MAX);
    let application = args.application.clone();
    if alive < args.scale {
        let added = args.scale - alive;
        if args.removal.dry_run {
            return session.output.print(&format!("would add {added} units to {application}\n"));
        }
        let (to, attach_storage) = (Vec::new(), Vec::new());
        let add = add_unit::AddUnitArgs { application, num_units: added, to, attach_storage };
        return add_unit::run(&add, session).await;
    }
    if alive > args.scale {
        let num_units = Some((alive - args.scale) as usize);
        let remove = remove_unit::RemoveUnitArgs {
            units: vec![application],
            num_units,
            removal: RemovalArguments { no_prompt: true, ..args.removal.clone() },
        };
        return remove_unit::run(&remove, session).await;
    }
    Ok(())
}
