//! `show-model [NAME]`: shows a model, by default the current one (spec/clients.md 2.4).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat};
use crate::session::{CommandSession, model_name};
use api::{FIRST_USER, GetStatus, ListModels, ModelInfo, Status, UserPort};
use clap::Args;
use serde_json::{Map, Value, json};
use state::terms::refusal::EntityKind;

/// Arguments of `show-model`.
#[derive(Debug, Args)]
pub struct ShowModelArgs {
    /// Name of the model; by default the current one
    pub name: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

pub async fn run<A: UserPort>(args: &ShowModelArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let name = args.name.as_deref().map_or(Ok(session.model.as_str()), model_name)?;
    let models = session.api.handle(ListModels).await?;
    let found = models.iter().find(|model| model.name == name || model.uuid.to_string() == name);
    let model = found.ok_or_else(|| CommandError::not_found(EntityKind::Model, name))?;
    let status = session.api.in_model(&model.uuid.to_string()).handle(GetStatus).await?;
    let all = Map::from_iter([(model.name.clone(), document(model, &status))]);
    session.output.print(&render::structured(&all.into(), args.format)?)
}

/// The document below the name of the model (spec/clients.md 2.4 "show-model").
pub fn document(model: &ModelInfo, status: &Status) -> Value {
    json!({
        "name": render::owned_name(&model.name),
        "short-name": model.name,
        "model-uuid": model.uuid,
        "model-type": "iaas",
        "controller-uuid": model.controller,
        "controller-name": status.model.controller,
        "is-controller": false,
        "owner": FIRST_USER,
        "cloud": status.model.cloud,
        "region": status.model.region,
        "life": model.life,
        "status": { "current": model.state },
        "agent-version": status.model.version,
        "users": {
            (FIRST_USER): { "display-name": FIRST_USER, "access": "admin", "last-connection": "never connected" },
        },
    })
}
