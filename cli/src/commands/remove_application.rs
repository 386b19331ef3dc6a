//! `remove-application APP…`.

use crate::arguments::Removal;
use crate::commands::removal;
use crate::failure::Failure;
use crate::session::Session;
use api::operator::{OperatorApi, Removable};
use clap::Args;

#[derive(Debug, Args)]
pub struct RemoveApplication {
    #[arg(required = true)]
    pub applications: Vec<String>,
    #[command(flatten)]
    pub removal: Removal,
}

pub async fn run<A: OperatorApi>(args: &RemoveApplication, at: &Session<A>) -> Result<(), Failure> {
    let force = args.removal.force.chosen()?;
    let things: Vec<String> = args.applications.iter().map(|name| format!("application {name}")).collect();
    if args.removal.dry_run {
        let removed = args.applications.iter().cloned().map(Removable::Application).collect();
        return removal::foretell(removed, at).await;
    }
    if !removal::agreed(&things, &args.removal, &at.output)? {
        return Ok(());
    }
    let mut failures = Vec::new();
    for (application, thing) in args.applications.iter().zip(&things) {
        let answer = at.api.remove_application(&at.model, application, force).await;
        failures.extend(removal::told(at, thing, force, answer));
    }
    removal::together(failures)
}
