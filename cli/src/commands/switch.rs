//! `switch [NAME]`: shows or changes the current model, which commands without `-m` use.
//!
//! The current model is stored in the client file, the previous one in a file beside it. `add-model` and
//! `destroy-model` change the current model through this module.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::render::owned_name;
use crate::session::{CommandSession, MODEL_VARIABLE, model_name, read_client_file};
use api::{CONTROLLER_NAME, ClientFile, ListModels, UserPort};
use clap::Args;
use host::file::write_atomic;
use state::terms::refusal::EntityKind;

/// Value in the client file if there is no current model.
pub const NO_MODEL: &str = "";

/// Arguments of `switch`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// The new current model; - selects the previous one; without a name, show the current one. The name of the
    /// controller selects its current model
    pub name: Option<String>,
}

pub async fn run<A: UserPort>(
    args: &SwitchArgs,
    session: &CommandSession<A>,
    dir: &DataDir,
) -> Result<(), CommandError> {
    let Some(name) = &args.name else {
        let controller = || CONTROLLER_NAME.to_owned();
        let current = (session.model != NO_MODEL).then(|| in_focus(&session.model));
        return session.output.print(&format!("{}\n", current.unwrap_or_else(controller)));
    };
    if let Some(model) = std::env::var(MODEL_VARIABLE).ok().filter(|model| !model.is_empty()) {
        return Err(CommandError::new(format!(
            "cannot switch when {MODEL_VARIABLE} is overriding the model (set to {model:?})"
        )));
    }
    if name.strip_suffix(':').unwrap_or(name) == CONTROLLER_NAME {
        // a model of this name is selected by its whole name
        let current = read_client_file(dir)?.map(|file| file.model).unwrap_or_default();
        session.output.print_remark(&format!("{} (no change)\n", in_focus(&current)));
        return Ok(());
    }
    let name = match name.as_str() {
        "-" => std::fs::read_to_string(dir.previous_model())
            .ok()
            .filter(|name| name != NO_MODEL)
            .ok_or_else(|| CommandError::new("cannot switch back: no previous model"))?,
        name => model_name(name)?.to_owned(),
    };
    let models = session.api.handle(ListModels).await?;
    if !models.iter().any(|model| model.name == name) {
        return Err(CommandError::not_found(EntityKind::Model, name));
    }
    let before = choose(dir, &name)?;
    session.output.print_remark(&format!("{} -> {}\n", in_focus(&before), in_focus(&name)));
    Ok(())
}

/// How Juju names what is in focus: a model, or the controller alone.
fn in_focus(model: &str) -> String {
    match model {
        NO_MODEL => format!("{CONTROLLER_NAME} (controller)"),
        model => format!("{CONTROLLER_NAME}:{}", owned_name(model)),
    }
}

/// Clears the current model if it is `name`, which was destroyed. As in Juju, there is then no current model until
/// the operator selects one.
///
/// # Errors
/// If the file cannot be written.
pub fn clear_current(dir: &DataDir, name: &str) -> Result<(), CommandError> {
    if read_client_file(dir)?.is_some_and(|file| file.model == name) {
        choose(dir, NO_MODEL)?;
    }
    Ok(())
}

/// Makes `name` the current model, and returns the previous one.
///
/// # Errors
/// If the client file cannot be read or written.
pub fn choose(dir: &DataDir, name: &str) -> Result<String, CommandError> {
    let Some(file) = read_client_file(dir)? else { return Ok(String::new()) };
    let before = file.model.clone();
    let text = charms::yaml::to_string(&ClientFile { model: name.to_owned(), ..file }).expect("plain data");
    for (path, text) in [(dir.previous_model(), &before), (dir.client_file(), &text)] {
        write_atomic(&path, text.as_bytes())
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(before)
}
