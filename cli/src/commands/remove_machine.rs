//! `remove-machine MACHINE…`.

use crate::arguments::Removal;
use crate::command_error::Failure;
use crate::commands::removal;
use crate::session::Session;
use api::{RemovalTarget, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct RemoveMachine {
    #[arg(required = true)]
    pub machines: Vec<String>,
    /// The machine's instance stays, without its agent, and is yours to take away
    #[arg(long)]
    pub keep_instance: bool,
    #[command(flatten)]
    pub removal: Removal,
}

pub async fn run<A: UserPort>(args: &RemoveMachine, at: &Session<A>) -> Result<(), Failure> {
    let things: Vec<String> = args.machines.iter().map(|machine| format!("machine {machine}")).collect();
    let removed = args.machines.iter().cloned().map(RemovalTarget::Machine).collect();
    let Some(force) = removal::begin(&things, removed, &args.removal, at).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (machine, thing) in args.machines.iter().zip(&things) {
        let answer = at
            .api
            .handle(api::RemoveMachine {
                machine: machine.to_owned(),
                force,
                keep_instance: args.keep_instance,
            })
            .await;
        failures.extend(removal::told(at, thing, force, answer));
    }
    removal::combine(failures)
}
