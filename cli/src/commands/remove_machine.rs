//! `remove-machine MACHINE…`: removes machines, and their instances unless `--keep-instance` is given.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{RemovalTarget, RemoveMachine, UserPort};
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
    let (machines, flags, keep_instance) = (&args.machines, &args.removal, args.keep_instance);
    let request =
        async |machine, force| session.api.handle(RemoveMachine { machine, force, keep_instance }).await;
    removal::remove_each("machine", machines, RemovalTarget::Machine, flags, session, request).await
}
