//! `remove-machine MACHINE…`: removes machines, and their instances unless `--keep-instance` is given.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{RemovalTarget, UserPort};
use clap::Args;

/// Arguments of `remove-machine`.
#[derive(Debug, Args)]
pub struct RemoveMachineArgs {
    /// Names of machines, for example 0
    #[arg(required = true)]
    pub machines: Vec<String>,
    /// Keep the instance without its agent; you must delete it yourself
    #[arg(long)]
    pub keep_instance: bool,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

pub async fn run<A: UserPort>(
    args: &RemoveMachineArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let entities: Vec<String> = args.machines.iter().map(|machine| format!("machine {machine}")).collect();
    let removed = args.machines.iter().cloned().map(RemovalTarget::Machine).collect();
    let Some(force) = removal::confirm(&entities, removed, &args.removal, session).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (machine, entity) in args.machines.iter().zip(&entities) {
        let answer = session
            .api
            .handle(api::RemoveMachine {
                machine: machine.to_owned(),
                force,
                keep_instance: args.keep_instance,
            })
            .await;
        failures.extend(removal::report(session, entity, force, answer));
    }
    removal::combine(failures)
}
