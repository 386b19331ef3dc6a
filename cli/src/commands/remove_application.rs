//! `remove-application APP…`.

use crate::arguments::Removal;
use crate::command_error::Failure;
use crate::commands::removal;
use crate::session::Session;
use api::{RemovalTarget, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct RemoveApplication {
    #[arg(required = true)]
    pub applications: Vec<String>,
    #[command(flatten)]
    pub removal: Removal,
}

pub async fn run<A: UserPort>(args: &RemoveApplication, at: &Session<A>) -> Result<(), Failure> {
    let things: Vec<String> = args.applications.iter().map(|name| format!("application {name}")).collect();
    let removed = args.applications.iter().cloned().map(RemovalTarget::Application).collect();
    let Some(force) = removal::begin(&things, removed, &args.removal, at).await? else {
        return Ok(());
    };
    let mut failures = Vec::new();
    for (application, thing) in args.applications.iter().zip(&things) {
        let answer =
            at.api.handle(api::RemoveApplication { application: application.to_owned(), force }).await;
        failures.extend(removal::told(at, thing, force, answer));
    }
    removal::combine(failures)
}
