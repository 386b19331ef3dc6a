//! `remove-secret SECRET`: removes a secret of users, or one revision of it.

use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{RemoveSecret, UserPort};
use clap::Args;

/// Arguments of `remove-secret`.
#[derive(Debug, Args)]
pub struct RemoveSecretArgs {
    /// Name or URI of the secret
    pub secret: String,
    /// Remove this revision only
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub revision: Option<u64>,
}

pub async fn run<A: UserPort>(
    args: &RemoveSecretArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let (secret, revision) = (args.secret.clone(), args.revision);
    let removed = session.api.handle(RemoveSecret { secret, revision }).await?;
    session.record_write(removed.revision);
    Ok(())
}
