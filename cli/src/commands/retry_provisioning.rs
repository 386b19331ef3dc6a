//! `retry-provisioning MACHINE…`: retries failed provisioning now instead of after the back-off.

use crate::command_error::CommandError;
use crate::commands::removal::combine;
use crate::session::CommandSession;
use api::UserPort;
use clap::Args;

/// Arguments of `retry-provisioning`.
#[derive(Debug, Args)]
pub struct RetryProvisioningArgs {
    /// Names of machines, for example 0
    #[arg(required = true)]
    pub machines: Vec<String>,
}

pub async fn run<A: UserPort>(
    args: &RetryProvisioningArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let mut failures = Vec::new();
    for machine in &args.machines {
        match session.api.handle(api::RetryProvisioning { machine: machine.to_owned() }).await {
            Ok(changed) => session.record_write(changed.revision),
            Err(error) => failures.push(CommandError::from(error)),
        }
    }
    combine(failures)
}
