//! `trust APP`: grants the charm of an application access to the credential of its cloud, or revokes it.
//!
//! Only `credential-get` depends on it. If the trust has changed, the units of the application run config-changed.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::session::CommandSession;
use api::{SetTrust, UserPort};
use clap::Args;

/// Arguments of `trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Name of the application
    pub application: String,
    /// Revoke the trust
    #[arg(long)]
    pub remove: bool,
    #[arg(long, hide = true)]
    pub scope: Option<String>,
}

/// Sets whether the application is trusted.
///
/// # Errors
/// If the controller cannot be reached or refuses the request.
pub async fn run<A: UserPort>(args: &TrustArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let scope =
        ("--scope", args.scope.is_some(), "scopes exist only on Kubernetes; the charm is trusted as a whole");
    session.output.warn(&ignored_flags([scope]));
    let set = SetTrust { application: args.application.clone(), trusted: !args.remove };
    session.record_write(session.api.handle(set).await?.revision);
    Ok(())
}
