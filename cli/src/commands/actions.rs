//! `actions APPLICATION`: the actions that the charm of an application declares (spec/clients.md 3.1).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat, Table, row};
use crate::session::CommandSession;
use api::{GetDeclaredActions, UserPort};
use clap::Args;
use serde_json::{Map, Value};
use state::charm::Action;

/// Arguments of `actions`.
#[derive(Debug, Args)]
pub struct ActionsArgs {
    /// Name of the application
    pub application: String,
    /// Show the JSON schema of the parameters; as YAML unless a format is given
    #[arg(long)]
    pub schema: bool,
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

pub async fn run<A: UserPort>(args: &ActionsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let declared = session.api.handle(GetDeclaredActions { application: args.application.clone() }).await?;
    if let Some(format) = args.format.or(args.schema.then_some(StructuredFormat::Yaml)) {
        let document = |name: &str, action: &Action| match args.schema {
            true => schema(name, action),
            false => description(action).into(),
        };
        let actions: Map<String, Value> =
            declared.iter().map(|(name, action)| (name.clone(), document(name, action))).collect();
        return session.output.print(&render::structured(&actions.into(), format)?);
    }
    if declared.is_empty() {
        session.output.print_remark(&format!("No actions defined for {}.\n", args.application));
        return Ok(());
    }
    let mut rows = vec![row(["Action", "Description"])];
    rows.extend(declared.iter().map(|(name, action)| row([name, description(action)])));
    session.output.print(&Table { right: &[], rows }.text())
}

fn description(action: &Action) -> &str {
    match action.description.trim() {
        "" => "No description",
        text => text,
    }
}

/// The schema of the parameters, with the description of the action and, unless the charm declares another title, its name
/// as the title, as in Juju.
fn schema(name: &str, action: &Action) -> Value {
    let mut schema = action.schema.as_object().cloned().unwrap_or_default();
    schema.insert("description".to_owned(), description(action).into());
    schema.entry("title").or_insert_with(|| name.into());
    schema.into()
}
