//! `show-model [NAME]`.

use crate::command_error::Failure;
use crate::render::{self, Format};
use crate::session::{Session, model_name};
use api::{GetStatus, ListModels, ModelInfo, Status, UserPort};
use clap::Args;
use serde_json::{Map, Value, json};

#[derive(Debug, Args)]
pub struct ShowModel {
    pub name: Option<String>,
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: Format,
}

pub async fn run<A: UserPort>(args: &ShowModel, at: &Session<A>) -> Result<(), Failure> {
    let name = args.name.as_deref().map_or(Ok(at.model.as_str()), model_name)?;
    let models = at.api.handle(ListModels).await?;
    let found = models.iter().find(|model| model.name == name || model.uuid.to_string() == name);
    let model =
        found.ok_or_else(|| Failure::new(format!("model {name:?} not found")).hint("see: pintle models"))?;
    let status = at.api.in_model(&model.uuid.to_string()).handle(GetStatus).await?;
    let all = Map::from_iter([(model.name.clone(), document(model, &status))]);
    at.output.say(&render::structured(&all.into(), args.format)?)
}

/// What stands below the model's name (spec/clients.md 2.4 "show-model").
pub fn document(model: &ModelInfo, status: &Status) -> Value {
    let current = if model.life.is_alive() { "available" } else { "destroying" };
    json!({
        "name": format!("admin/{}", model.name),
        "short-name": model.name,
        "model-uuid": model.uuid,
        "model-type": "iaas",
        "controller-uuid": model.controller,
        "controller-name": status.model.controller,
        "is-controller": false,
        "owner": "admin",
        "cloud": status.model.cloud,
        "region": status.model.region,
        "life": model.life,
        "status": { "current": current },
        "agent-version": status.model.version,
        "users": {
            "admin": { "display-name": "admin", "access": "admin", "last-connection": "never connected" },
        },
    })
}
