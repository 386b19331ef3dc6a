//! `remove-application APP…`: removes applications with all their units.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{RemovalTarget, RemoveApplication, UserPort};
use clap::Args;

/// Arguments of `remove-application`.
#[derive(Debug, Args)]
pub struct RemoveApplicationArgs {
    /// Names of applications
    #[arg(required = true)]
    pub applications: Vec<String>,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

pub async fn run<A: UserPort>(
    args: &RemoveApplicationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let (applications, flags) = (&args.applications, &args.removal);
    let destroy_storage = flags.destroy_storage;
    let request = async |application: String, force| {
        let request = RemoveApplication { destroy_storage, application: application.clone(), force };
        let removed = session.api.handle(request).await?;
        session.notes.delete_charm_place(&session.model, &application);
        Ok(removed)
    };
    removal::remove_each("application", applications, RemovalTarget::Application, flags, session, request)
        .await
}
