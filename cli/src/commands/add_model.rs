//! `add-model NAME`.

use crate::commands::settings;
use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::session::{Session, model_name, read_client_file};
use crate::supervisor::files;
use api::operator::{ClientFile, CreateModel, OperatorApi};
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

pub async fn run<A: OperatorApi>(args: &AddModel, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let config = settings::of_flags(&args.config, None)?;
    let name = model_name(&args.name).to_owned();
    let model = at.api.create_model(CreateModel { name, config }).await?;
    at.output.note(&format!("Added '{}' model on local/local for user 'admin'\n", model.name));
    if !args.no_switch
        && let Some(file) = read_client_file(dir)?
    {
        let text = serde_yaml::to_string(&ClientFile { model: model.name, ..file }).expect("plain data");
        let path = dir.client_file();
        files::replace_private(&path, &text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}
