//! `controllers`, `show-controller` and `whoami`: the controller of the data folder, as Juju's clients know controllers.
//!
//! A data folder has one controller; its commands reach no other one.

use crate::command_error::CommandError;
use crate::commands::switch::NO_MODEL;
use crate::render::{self, StructuredFormat, Table, owned_name, row};
use crate::session::{CommandSession, no_client_file, read_client_file};
use api::{
    CLOUD_NAME, CONTROLLER_NAME, ClientFile, ControllerInfo, GetAbout, ListModels, ModelInfo, REGION_NAME,
    UserPort,
};
use clap::Args;
use serde_json::{Map, Value, json};
use state::terms::names::Uuid;
use std::collections::BTreeSet;

/// Juju's word for what the first user of a controller may do.
const ACCESS: &str = "superuser";

/// Arguments of `controllers`.
#[derive(Debug, Args)]
pub struct ControllersArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
    #[arg(long, hide = true)]
    pub refresh: bool,
}

/// Arguments of `show-controller`.
#[derive(Debug, Args)]
pub struct ShowControllerArgs {
    /// The name of the controller
    pub name: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: StructuredFormat,
}

/// Arguments of `whoami`.
#[derive(Debug, Args)]
pub struct WhoamiArgs {
    /// Output format; by default a table
    #[arg(long, value_enum)]
    pub format: Option<StructuredFormat>,
}

/// What the commands show of the controller.
struct Shown {
    file: ClientFile,
    about: ControllerInfo,
    models: Vec<ModelInfo>,
    machines: usize,
}

async fn shown<A: UserPort>(session: &CommandSession<A>) -> Result<Shown, CommandError> {
    let file = read_client_file(&session.dir)?.ok_or_else(|| no_client_file(&session.dir))?;
    let about = session.api.handle(GetAbout).await?;
    let models = session.api.handle(ListModels).await?;
    let mut machines = BTreeSet::<Uuid>::new();
    for model in &models {
        let status = session.api.in_model(&model.uuid.to_string()).handle(api::GetStatus).await?;
        machines.extend(status.machines.values().map(|machine| machine.uuid));
    }
    Ok(Shown { file, about, models, machines: machines.len() })
}

impl Shown {
    /// The current model with its owner; none if none is selected.
    fn current_model(&self) -> Option<String> {
        (self.file.model != NO_MODEL).then(|| owned_name(&self.file.model))
    }
}

/// The addresses of the controller.
fn endpoints(file: &ClientFile) -> Vec<&String> {
    [&file.controller].into_iter().chain(&file.other_controllers).collect()
}

pub async fn list<A: UserPort>(
    args: &ControllersArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let shown = shown(session).await?;
    if let Some(format) = args.format {
        let mut document = json!({
            "user": shown.file.user,
            "access": ACCESS,
            "uuid": shown.about.controller,
            "api-endpoints": endpoints(&shown.file),
            "ca-cert": shown.file.ca,
            "cloud": CLOUD_NAME,
            "region": REGION_NAME,
            "agent-version": shown.about.juju_version,
            "model-count": shown.models.len(),
            "machine-count": shown.machines,
        });
        if let Some(model) = shown.current_model() {
            document["current-model"] = model.into();
        }
        let all =
            json!({ "controllers": { (CONTROLLER_NAME): document }, "current-controller": CONTROLLER_NAME });
        return session.output.print(&render::structured(&all, format)?);
    }
    let headings =
        ["Controller", "Model", "User", "Access", "Cloud/Region", "Models", "Nodes", "HA", "Version"];
    let model = (shown.file.model != NO_MODEL).then(|| shown.file.model.clone());
    let line = row([
        &format!("{CONTROLLER_NAME}*"),
        model.as_deref().unwrap_or("-"),
        &shown.file.user,
        ACCESS,
        &format!("{CLOUD_NAME}/{REGION_NAME}"),
        &shown.models.len().to_string(),
        &shown.machines.to_string(),
        "none",
        &shown.about.juju_version,
    ]);
    session.output.print(&Table { right: &[5, 6], rows: vec![row(headings), line] }.text())
}

pub async fn show<A: UserPort>(
    args: &ShowControllerArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    if let Some(other) = args.name.as_deref().filter(|name| *name != CONTROLLER_NAME) {
        return Err(CommandError::new(format!("controller {other:?} not found")));
    }
    let shown = shown(session).await?;
    let models: Map<String, Value> = shown
        .models
        .iter()
        .map(|model| (owned_name(&model.name), json!({ "model-uuid": model.uuid })))
        .collect();
    let mut document = json!({
        "details": {
            "controller-uuid": shown.about.controller,
            "api-endpoints": endpoints(&shown.file),
            "cloud": CLOUD_NAME,
            "region": REGION_NAME,
            "agent-version": shown.about.juju_version,
            "ca-cert": shown.file.ca,
        },
        "models": models,
        "account": { "user": shown.file.user, "access": ACCESS },
    });
    if let Some(model) = shown.current_model() {
        document["current-model"] = model.into();
    }
    session.output.print(&render::structured(&json!({ (CONTROLLER_NAME): document }), args.format)?)
}

pub fn whoami<A: UserPort>(args: &WhoamiArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let file = read_client_file(&session.dir)?.ok_or_else(|| no_client_file(&session.dir))?;
    let model = if file.model == NO_MODEL { String::new() } else { owned_name(&file.model) };
    if let Some(format) = args.format {
        let document = json!({ "controller": CONTROLLER_NAME, "model": model, "user": file.user });
        return session.output.print(&render::structured(&document, format)?);
    }
    let model = if model.is_empty() { "<no-current-model>".to_owned() } else { model };
    session
        .output
        .print(&format!("Controller:  {CONTROLLER_NAME}\nModel:       {model}\nUser:        {}\n", file.user))
}
