//! `show-model [NAME]`: shows a model, by default the current one (spec/clients.md 2.4).

use crate::command_error::CommandError;
use crate::render::{self, StructuredFormat};
use crate::session::{CommandSession, model_name};
use api::{
    CLOUD_NAME, CONTROLLER_NAME, FIRST_USER, JUJU_VERSION, ListModels, ModelInfo, REGION_NAME, UserPort,
};
use clap::Args;
use serde_json::{Map, Value, json};
use state::terms::refusal::EntityKind;

/// Juju's type of a cloud whose machines others provide.
const CLOUD_TYPE: &str = "manual";

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
    let all = Map::from_iter([(model.name.clone(), document(model))]);
    session.output.print(&render::structured(&all.into(), args.format)?)
}

/// What Juju's clients know of a model (spec/clients.md 2.4 "show-model"), also in the list of `models`.
pub fn document(model: &ModelInfo) -> Value {
    json!({
        "name": render::owned_name(&model.name),
        "short-name": model.name,
        "model-uuid": model.uuid,
        "model-type": "iaas",
        "controller-uuid": model.controller,
        "controller-name": CONTROLLER_NAME,
        "is-controller": false,
        "owner": FIRST_USER,
        "cloud": CLOUD_NAME,
        "region": REGION_NAME,
        "type": CLOUD_TYPE,
        "life": model.life,
        "status": { "current": model.state },
        "agent-version": JUJU_VERSION,
        "users": {
            (FIRST_USER): { "display-name": FIRST_USER, "access": "admin", "last-connection": "never connected" },
        },
    })
}
