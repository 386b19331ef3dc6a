//! `models`: lists the models of the controller; `*` marks the current one.

use crate::command_error::CommandError;
use crate::commands::show_model;
use crate::render::{self, StructuredFormat, Table, row};
use crate::session::{CommandSession, require_controller};
use api::{CLOUD_NAME, ListModels, REGION_NAME, UserPort};
use clap::Args;
use serde_json::json;

/// Arguments of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
    #[arg(long, hide = true)]
    pub all: bool,
    #[arg(long, hide = true)]
    pub exact_time: bool,
    #[arg(long, hide = true)]
    pub uuid: bool,
    #[arg(long, hide = true)]
    pub user: Option<String>,
    #[arg(short, long, hide = true)]
    pub controller: Option<String>,
}

pub async fn run<A: UserPort>(args: &ModelsArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    if let Some(controller) = &args.controller {
        require_controller(controller)?;
    }
    let mut models = session.api.handle(ListModels).await?;
    models.sort_by(|a, b| render::compare_natural(&a.name, &b.name));
    if let Some(format) = args.format {
        let list: Vec<_> = models.iter().map(show_model::document).collect();
        return session
            .output
            .print(&render::structured(&json!({ "models": list, "current-model": session.model }), format)?);
    }
    let mut rows = vec![row(["Model", "Cloud/Region", "Type", "Status"])];
    for model in &models {
        let current = if model.name == session.model { "*" } else { "" };
        rows.push(row([
            &format!("{}{current}", model.name),
            &format!("{CLOUD_NAME}/{REGION_NAME}"),
            "iaas",
            model.state.as_str(),
        ]));
    }
    session.output.print(&Table { right: &[], rows }.text())
}
