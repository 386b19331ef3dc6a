//! `models`.

use crate::command_error::Failure;
use crate::render::{self, Format, Table, row};
use crate::session::Session;
use api::{ListModels, UserPort};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub struct Models {
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    #[arg(long, hide = true)]
    pub all: bool,
    #[arg(long, hide = true)]
    pub exact_time: bool,
}

pub async fn run<A: UserPort>(args: &Models, at: &Session<A>) -> Result<(), Failure> {
    let mut models = at.api.handle(ListModels).await?;
    models.sort_by(|a, b| render::compare_natural(&a.name, &b.name));
    let status = |life: state::terms::life::Life| {
        if life.is_alive() { "available" } else { "destroying" }
    };
    if let Some(format) = args.format {
        let list = models.iter().map(|model| {
            json!({
                "name": format!("admin/{}", model.name),
                "short-name": model.name,
                "model-uuid": model.uuid,
                "model-type": "iaas",
                "life": model.life,
                "status": { "current": status(model.life) },
            })
        });
        let list: Vec<_> = list.collect();
        return at
            .output
            .say(&render::structured(&json!({ "models": list, "current-model": at.model }), format)?);
    }
    let mut rows = vec![row(["Model", "Cloud/Region", "Type", "Status"])];
    for model in &models {
        let current = if model.name == at.model { "*" } else { "" };
        rows.push(row([&format!("{}{current}", model.name), "local/local", "iaas", status(model.life)]));
    }
    at.output.say(&Table { right: &[], rows }.text())
}
