//! `retry-provisioning MACHINE…`.

use crate::command_error::Failure;
use crate::commands::removal::combine;
use crate::session::Session;
use api::UserPort;
use clap::Args;

#[derive(Debug, Args)]
pub struct RetryProvisioning {
    #[arg(required = true)]
    pub machines: Vec<String>,
}

pub async fn run<A: UserPort>(args: &RetryProvisioning, at: &Session<A>) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for machine in &args.machines {
        match at.api.handle(api::RetryProvisioning { machine: machine.to_owned() }).await {
            Ok(changed) => at.note_write(changed.revision),
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    combine(failures)
}
