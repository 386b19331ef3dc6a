//! `add-model NAME`: creates a model and makes it the current one, unless `--no-switch` is given.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::commands::{settings, switch};
use crate::data_dir::DataDir;
use crate::session::{CommandSession, model_name};
use api::{CLOUD_NAME, CreateModel, FIRST_USER, REGION_NAME, UserPort};
use clap::Args;

/// Arguments of `add-model`.
#[derive(Debug, Args)]
pub struct AddModelArgs {
    /// Name of the new model
    pub name: String,
    /// Cloud and region of Juju: the one of this controller
    #[arg(hide = true)]
    pub cloud: Option<String>,
    /// Keep the current model
    #[arg(long)]
    pub no_switch: bool,
    /// A model setting, key=value or key=@FILE, or a YAML file of settings; may be repeated
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    #[arg(short, long, hide = true)]
    pub controller: Option<String>,
    #[arg(long, hide = true)]
    pub credential: Option<String>,
    #[arg(long, hide = true)]
    pub owner: Option<String>,
}

pub async fn run<A: UserPort>(
    args: &AddModelArgs,
    session: &CommandSession<A>,
    dir: &DataDir,
) -> Result<(), CommandError> {
    let config = settings::from_flags(&args.config, None)?;
    let name = model_name(&args.name)?.to_owned();
    if let Some(controller) = &args.controller {
        model_name(&format!("{controller}:{name}"))?;
    }
    let known_clouds = [CLOUD_NAME.to_owned(), REGION_NAME.to_owned(), format!("{CLOUD_NAME}/{REGION_NAME}")];
    let is_other_cloud = args.cloud.as_ref().is_some_and(|cloud| !known_clouds.contains(cloud));
    session.output.warn(&ignored_flags([
        (
            "the cloud",
            is_other_cloud,
            "this controller has one, and its provider was chosen by: pintle up --provider",
        ),
        ("--credential", args.credential.is_some(), "this cloud needs none"),
        (
            "--owner",
            args.owner.as_ref().is_some_and(|owner| owner != FIRST_USER),
            "the user of the data folder is the only one",
        ),
    ]));
    let model = session.api.handle(CreateModel { name, config }).await?;
    session.output.print_remark(&format!(
        "Added '{}' model on {CLOUD_NAME}/{REGION_NAME} for user '{FIRST_USER}'\n",
        model.name
    ));
    if !args.no_switch {
        switch::choose(dir, &model.name)?;
    }
    Ok(())
}
