//! `switch [NAME]`: which model commands without `-m` mean.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::session::{Session, model_name, read_client_file};
use api::{ClientFile, ListModels, UserPort};
use clap::Args;
use host::file::write_atomic;

/// In the client file: there is no current model.
const NONE: &str = "";

#[derive(Debug, Args)]
pub struct Switch {
    /// The model to work in from now on; - is the one before; none shows the current one
    pub name: Option<String>,
}

pub async fn run<A: UserPort>(args: &Switch, at: &Session<A>, dir: &DataDir) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        at.require_model()?;
        return at.output.say(&format!("here:admin/{}\n", at.model));
    };
    let name = match name.as_str() {
        "-" => std::fs::read_to_string(dir.previous_model())
            .ok()
            .filter(|name| name != NONE)
            .ok_or_else(|| Failure::new("there is no model to go back to: you have not switched yet"))?,
        name => model_name(name)?.to_owned(),
    };
    let models = at.api.handle(ListModels).await?;
    if !models.iter().any(|model| model.name == name) {
        return Err(Failure::new(format!("model {name:?} not found")).hint("see: pintle models"));
    }
    let before = choose(dir, &name)?;
    at.output.note(&format!("here:admin/{before} -> here:admin/{name}\n"));
    Ok(())
}

/// `name` was destroyed: if it was the current model, there is none until a person chooses one, as in Juju.
pub fn leave(dir: &DataDir, name: &str) -> Result<(), Failure> {
    if read_client_file(dir)?.is_some_and(|file| file.model == name) {
        choose(dir, NONE)?;
    }
    Ok(())
}

/// Makes `name` the current model; the answer is the one that was.
pub fn choose(dir: &DataDir, name: &str) -> Result<String, Failure> {
    let Some(file) = read_client_file(dir)? else { return Ok(String::new()) };
    let before = file.model.clone();
    let text = serde_yaml::to_string(&ClientFile { model: name.to_owned(), ..file }).expect("plain data");
    for (path, text) in [(dir.previous_model(), &before), (dir.client_file(), &text)] {
        write_atomic(&path, text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(before)
}
