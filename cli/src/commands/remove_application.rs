//! `remove-application APP…`: removes applications with all their units.

use crate::arguments::RemovalArguments;
use crate::command_error::CommandError;
use crate::commands::removal;
use crate::session::CommandSession;
use api::{RemovalTarget, UserPort};
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
    let entities: Vec<String> = args.applications.iter().map(|name| format!("application {name}")).collect();
    let removed = args.applications.iter().cloned().map(RemovalTarget::Application).collect();
    let Some(force) = removal::confirm(&entities, removed, &args.removal, session).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (application, entity) in args.applications.iter().zip(&entities) {
        let answer =
            session.api.handle(api::RemoveApplication { application: application.to_owned(), force }).await;
        failures.extend(removal::report(session, entity, force, answer));
    }
    removal::combine(failures)
}
