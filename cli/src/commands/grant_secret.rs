//! `grant-secret SECRET APP,…` and `revoke-secret SECRET APP,…`: which applications read a secret of users.
//!
//! All applications of one command are granted or none is.

use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{GrantSecret, RevokeSecret, UserPort};
use clap::Args;

/// Arguments of `grant-secret`.
#[derive(Debug, Args)]
pub struct GrantSecretArgs {
    /// Name or URI of the secret
    pub secret: String,
    /// Names of applications; comma-separated
    #[arg(required = true, value_delimiter = ',')]
    pub applications: Vec<String>,
}

/// Arguments of `revoke-secret`.
#[derive(Debug, Args)]
pub struct RevokeSecretArgs {
    /// Name or URI of the secret
    pub secret: String,
    /// Names of applications; comma-separated
    #[arg(required = true, value_delimiter = ',')]
    pub applications: Vec<String>,
}

pub async fn grant<A: UserPort>(
    args: &GrantSecretArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let (secret, applications) = (args.secret.clone(), args.applications.clone());
    let granted = session.api.handle(GrantSecret { secret, applications }).await?;
    session.record_write(granted.revision);
    Ok(())
}

pub async fn revoke<A: UserPort>(
    args: &RevokeSecretArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let (secret, applications) = (args.secret.clone(), args.applications.clone());
    let revoked = session.api.handle(RevokeSecret { secret, applications }).await?;
    session.record_write(revoked.revision);
    Ok(())
}
