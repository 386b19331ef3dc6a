//! `add-model NAME`.

use crate::command_error::Failure;
use crate::commands::{settings, switch};
use crate::data_dir::DataDir;
use crate::session::{Session, model_name};
use api::{CreateModel, UserPort};
use clap::Args;

#[derive(Debug, Args)]
pub struct AddModel {
    pub name: String,
    /// No meaning here
    #[arg(hide = true)]
    pub cloud: Option<String>,
    /// Keep the current model
    #[arg(long)]
    pub no_switch: bool,
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub config: Vec<String>,
    #[arg(short, long, hide = true)]
    pub controller: Option<String>,
    #[arg(long, hide = true)]
    pub credential: Option<String>,
    #[arg(long, hide = true)]
    pub owner: Option<String>,
}

pub async fn run<A: UserPort>(args: &AddModel, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let config = settings::from_flags(&args.config, None)?;
    let name = model_name(&args.name)?.to_owned();
    let model = at.api.handle(CreateModel { name, config }).await?;
    at.output.note(&format!("Added '{}' model on local/local for user 'admin'\n", model.name));
    if !args.no_switch {
        switch::choose(dir, &model.name)?;
    }
    Ok(())
}
