//! `switch [NAME]`: which model commands without `-m` mean.

use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::session::{Session, model_name, read_client_file};
use crate::supervisor::files;
use api::operator::{ClientFile, OperatorApi};
use clap::Args;

#[derive(Debug, Args)]
pub struct Switch {
    /// The model to work in from now on; - is the one before; none shows the current one
    pub name: Option<String>,
}

pub async fn run<A: OperatorApi>(args: &Switch, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return at.output.say(&format!("here:admin/{}\n", at.model));
    };
    let name = match name.as_str() {
        "-" => std::fs::read_to_string(dir.previous_model())
            .map_err(|_| Failure::new("there is no model to go back to: you have not switched yet"))?,
        name => model_name(name)?.to_owned(),
    };
    let models = at.api.models().await?;
    if !models.iter().any(|model| model.name == name) {
        return Err(Failure::new(format!("model {name:?} not found")).hint("see: pintle models"));
    }
    let before = choose(dir, &name)?;
    at.output.note(&format!("here:admin/{before} -> here:admin/{name}\n"));
    Ok(())
}

/// Makes `name` the current model; the answer is the one that was.
pub fn choose(dir: &DataDir, name: &str) -> Result<String, Failure> {
    let Some(file) = read_client_file(dir)? else { return Ok(String::new()) };
    let before = file.model.clone();
    let text = serde_yaml::to_string(&ClientFile { model: name.to_owned(), ..file }).expect("plain data");
    for (path, text) in [(dir.previous_model(), &before), (dir.client_file(), &text)] {
        files::replace_private(&path, text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(before)
}
