//! `show-application APP…`: shows applications (spec/clients.md 3.5).

use crate::command_error::CommandError;
use crate::commands::constraints;
use crate::render::{self, StructuredFormat, status_json};
use crate::session::CommandSession;
use api::{ApplicationStatus, Constraints, GetStatus, UserPort};
use clap::Args;
use serde_json::{Map, Value, json};
use state::terms::refusal::EntityKind;

/// Arguments of `show-application`.
#[derive(Debug, Args)]
pub struct ShowApplicationArgs {
    /// Names of applications
    #[arg(required = true)]
    pub applications: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

pub async fn run<A: UserPort>(
    args: &ShowApplicationArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let status = session.api.handle(GetStatus).await?;
    let mut shown = Map::new();
    for name in &args.applications {
        let application = status.applications.get(name);
        let application =
            application.ok_or_else(|| CommandError::not_found(EntityKind::Application, name))?;
        let constraints = constraints::effective(Some(name), session).await?;
        shown.insert(name.clone(), document(application, &constraints));
    }
    session.output.print(&render::structured(&shown.into(), args.format)?)
}

/// The document below the name of the application.
fn document(application: &ApplicationStatus, limits: &Constraints) -> Value {
    let bindings: Map<String, Value> = status_json::bindings(application)
        .map(|(endpoint, space)| (endpoint.to_owned(), space.into()))
        .collect();
    json!({
        "charm": application.charm_name,
        "base": application.base.to_string(),
        "channel": "",
        "constraints": constraints::document(limits),
        "principal": !application.subordinate,
        "exposed": application.exposed,
        "remote": false,
        "life": application.life,
        "endpoint-bindings": bindings,
    })
}
