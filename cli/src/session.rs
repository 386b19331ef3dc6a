//! The session of a command: the controller of its data folder, the model, and the output.
//!
//! `dispatch` opens one session per command that needs a controller. The client file, which holds the operator's
//! token, is read here; a client file that other users can read is rejected.

use crate::arguments::GlobalArguments;
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::model_notes::ModelNotes;
use crate::output::Output;
use crate::supervisor::process_exits;
use api::client::{Client, ControllerConnection};
use api::{CONTROLLER_NAME, ClientFile, FIRST_USER, InModel};
use host::file::ignore_not_found;
use state::terms::refusal::EntityKind;
use std::os::unix::fs::PermissionsExt;

/// What every command that contacts the controller receives. Tests use another `api`.
pub struct CommandSession<A> {
    /// The controller's API, bound to `model`.
    pub api: A,
    /// Name or UUID of the model; empty if the current model was destroyed and no other one was selected.
    pub model: String,
    /// Where results and remarks are printed.
    pub output: Output,
    /// What commands remember about each model.
    pub notes: ModelNotes,
    /// The data folder.
    pub dir: DataDir,
}

impl CommandSession<Client> {
    /// Opens the session described by the client file of the data folder. Nothing is sent yet.
    ///
    /// # Errors
    /// If there is no client file, or it is invalid.
    pub fn open(global: &GlobalArguments) -> Result<CommandSession<Client>, CommandError> {
        let dir = DataDir::choose(global.data.as_deref())?;
        let file = read_client_file(&dir)?.ok_or_else(|| no_client_file(&dir))?;
        let api = client(&file)?;
        let model = chosen_model(global)?.unwrap_or(file.model);
        let api = api.in_model(&model);
        let output = Output::of_process(global);
        let notes = ModelNotes(dir.model_notes());
        Ok(CommandSession { api, model, output, notes, dir })
    }
}

impl<A> CommandSession<A> {
    /// Returns an error if no model is selected.
    pub fn require_model(&self) -> Result<(), CommandError> {
        match self.model.is_empty() {
            true => Err(CommandError::new("no model in focus")
                .hint("create one with: pintle add-model dev; or list them with: pintle models; and select one with: pintle switch NAME")),
            false => Ok(()),
        }
    }

    /// Stores the revision of a completed write to this model: the next `status` waits until agents have applied it.
    pub fn record_write(&self, revision: u64) {
        self.notes.store_last_write(&self.model, revision);
    }
}

/// A client for the controller and the user of the client file.
///
/// # Errors
/// If a field of the file is invalid.
pub fn client(file: &ClientFile) -> Result<Client, CommandError> {
    Ok(Client::user(&ControllerConnection::from(file))?)
}

/// Reads the client file; `None` if it does not exist. A client file that other users can read is rejected, because
/// its token may be compromised (spec/security.md S27).
///
/// # Errors
/// If it cannot be read or parsed, or others can read it.
pub fn read_client_file(dir: &DataDir) -> Result<Option<ClientFile>, CommandError> {
    let path = dir.client_file();
    let name = path.display();
    let text = ignore_not_found(std::fs::read_to_string(&path))
        .map_err(|error| CommandError::new(format!("cannot read {name}: {error}")))?;
    let Some(text) = text else { return Ok(None) };
    let mode = path.metadata().map(|found| found.permissions().mode()).unwrap_or_default();
    if mode & 0o077 != 0 {
        let help = format!("it holds a token: chmod 600 {name}");
        return Err(CommandError::new(format!("cannot use {name}: other users can read it")).hint(help));
    }
    // its errors contain no excerpt, which could show the token
    charms::yaml::from_str(&text).map(Some).map_err(|error| {
        let failure = CommandError::new(format!("cannot parse {name}: {error}"));
        failure.hint("to write it again: delete it, then pintle down, then pintle up")
    })
}

/// The error for a data folder without a client file: no controller was started there, or the file was deleted.
pub fn no_client_file(dir: &DataDir) -> CommandError {
    if crate::supervisor::lock::holder(dir).is_none() {
        return no_controller(dir, "the controller was never started");
    }
    let text = format!("{} is missing", dir.client_file().display());
    CommandError::new(text).hint("to write it again: pintle down, then pintle up")
}

/// The error for a controller that cannot be reached; `why` is the reason.
fn no_controller(dir: &DataDir, why: &str) -> CommandError {
    if crate::supervisor::lock::holder(dir).is_some() {
        if let Some(failure) = process_exits::why_no_controller(dir) {
            return failure;
        }
        let text = format!("the controller of {} does not answer: {why}", dir.path().display());
        return CommandError::new(text).hint(
            "a controller that exited is restarted: try again; if it does not respond: pintle down, then pintle up",
        );
    }
    CommandError::new(format!(
        "no controller is running for {}: {why}; start it with: pintle up",
        dir.path().display()
    ))
}

/// Replaces the error of an unreachable controller by one that says how to start it; returns other errors unchanged.
pub fn explain(failure: CommandError, dir: &DataDir) -> CommandError {
    match &failure.unreachable {
        Some(why) => no_controller(dir, &why.to_lowercase()),
        None => failure,
    }
}

/// The environment variable that names the controller of Juju's commands.
const CONTROLLER_VARIABLE: &str = "JUJU_CONTROLLER";
/// The environment variable that names the model.
pub const MODEL_VARIABLE: &str = "JUJU_MODEL";

/// The model that the flags or the environment name, and none for the current model of the controller. As in Juju, an
/// empty name is none, and so is the name of the controller alone (`here:`).
///
/// # Errors
/// If the model or the controller has another name than it can have.
pub fn chosen_model(global: &GlobalArguments) -> Result<Option<String>, CommandError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(controller) = variable(CONTROLLER_VARIABLE) {
        require_controller(&controller)?;
    }
    let given = global.model.clone().filter(|name| !name.is_empty()).or_else(|| variable(MODEL_VARIABLE));
    let Some(name) = given else { return Ok(None) };
    match name.strip_suffix(':') {
        Some(controller) => require_controller(controller).map(|()| None),
        None => model_name(&name).map(|name| Some(name.to_owned())),
    }
}

/// Requires that this is the name of the only controller of a data folder.
///
/// # Errors
/// If it is another one.
pub fn require_controller(name: &str) -> Result<(), CommandError> {
    if name == CONTROLLER_NAME {
        return Ok(());
    }
    let hint = format!(
        "this data folder has one controller, {CONTROLLER_NAME}; to select another data folder: --data DIR"
    );
    Err(CommandError::new(format!("controller {name:?} not found")).hint(hint))
}

/// Returns `name` of `controller:user/name`. Another controller or another user is an error.
pub fn model_name(text: &str) -> Result<&str, CommandError> {
    let (controller, model) = text.split_once(':').unwrap_or((CONTROLLER_NAME, text));
    let (owner, name) = model.split_once('/').unwrap_or((FIRST_USER, model));
    require_controller(controller)?;
    if owner != FIRST_USER || name.is_empty() || name.contains('/') {
        return Err(CommandError::not_found(EntityKind::Model, model));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::error::{ApiError, ErrorCode};

    #[test]
    fn a_model_name_may_include_its_controller_and_owner() {
        for text in ["dev", "admin/dev", "here:dev", "here:admin/dev"] {
            assert_eq!(model_name(text), Ok("dev"), "{text}");
        }
        for (text, what) in [
            ("wrong:dev", "controller \"wrong\" not found"),
            ("wrong:bob/dev", "controller \"wrong\" not found"),
            ("bob/dev", "model \"bob/dev\" not found"),
            ("here:admin/a/b", "model \"admin/a/b\" not found"),
            ("here:", "model \"\" not found"),
        ] {
            assert_eq!(model_name(text).expect_err(text).message, what);
        }
    }

    #[test]
    fn an_unreachable_controller_is_reported_in_one_line() {
        let dir = DataDir::choose(Some(std::path::Path::new("/data"))).expect("a path");
        let refused = CommandError::from(ApiError::unreachable("127.0.0.1:1", "connection refused"));
        let message = explain(refused, &dir).message;
        assert!(
            message.contains("/data: ")
                && message.contains("connection refused")
                && message.ends_with(": pintle up"),
            "{message}"
        );
        let unknown =
            CommandError::from(ApiError::new(ErrorCode::NotFound, "application web is not there: no"));
        assert_eq!(explain(unknown.clone(), &dir), unknown);
    }

    #[test]
    fn a_client_file_that_other_users_can_read_is_rejected() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(outer.path())).expect("a path");
        assert_eq!(read_client_file(&dir), Ok(None));
        let text = "controller: 127.0.0.1:1\nserver_name: x\nca: pem\nuser: admin\ntoken: t\nmodel: dev\n";
        std::fs::write(dir.client_file(), text).expect("written");
        let chmod = |mode| {
            std::fs::set_permissions(dir.client_file(), std::fs::Permissions::from_mode(mode))
                .expect("own file");
        };
        chmod(0o644);
        let failure = read_client_file(&dir).expect_err("readable by others");
        assert!(failure.message.contains("client.yaml: "), "{failure:?}");
        chmod(0o600);
        assert_eq!(read_client_file(&dir).expect("private").expect("there").model, "dev");
    }
}
