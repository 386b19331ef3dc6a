//! Whom a command talks to: the controller of its data folder, in one model, with its output.

use crate::arguments::GlobalArguments;
use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::last_write::LastWrites;
use crate::output::Output;
use api::client::{Client, Controller};
use api::{ClientFile, InModel};
use host::file::ignore_not_found;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What every command that asks the controller is given. Tests put another `api` in.
pub struct Session<A> {
    /// The controller, in `model`.
    pub api: A,
    /// Name or uuid of the model; empty = the current one was destroyed, and none was chosen.
    pub model: String,
    pub output: Output,
    pub writes: LastWrites,
    /// Where Python packages of charms are kept between deploys.
    pub charm_cache: PathBuf,
}

impl Session<Client> {
    /// By the client file of the chosen data folder. Nothing is sent yet.
    pub fn open(everywhere: &GlobalArguments) -> Result<Session<Client>, Failure> {
        let dir = DataDir::choose(everywhere.data.as_deref())?;
        let file = read_client_file(&dir)?.ok_or_else(|| no_client_file(&dir))?;
        let api = client(&file)?;
        let model = match everywhere.model.as_deref() {
            Some(name) => model_name(name)?.to_owned(),
            None => file.model,
        };
        let api = api.in_model(&model);
        let output = Output::Process { file: everywhere.output.clone() };
        let writes = LastWrites::Folder(dir.last_writes());
        Ok(Session { api, model, output, writes, charm_cache: dir.charm_cache() })
    }
}

impl<A> Session<A> {
    /// Refuses where no model is meant.
    pub fn require_model(&self) -> Result<(), Failure> {
        match self.model.is_empty() {
            true => Err(Failure::new("no model in focus")
                .hint("pintle switch MODEL, or -m MODEL; see: pintle models")),
            false => Ok(()),
        }
    }

    /// A write to this model was answered: the next `status` lets the agents catch up with it.
    pub fn note_write(&self, revision: u64) {
        self.writes.remember(&self.model, revision);
    }
}

pub fn client(file: &ClientFile) -> Result<Client, Failure> {
    Ok(Client::user(&Controller::from(file))?)
}

/// The client file; none when there is none yet. One that others may read is refused: its token may be known to
/// them (spec/security.md S27).
pub fn read_client_file(dir: &DataDir) -> Result<Option<ClientFile>, Failure> {
    let path = dir.client_file();
    let name = path.display();
    let text = ignore_not_found(std::fs::read_to_string(&path))
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    let Some(text) = text else { return Ok(None) };
    let mode = path.metadata().map(|found| found.permissions().mode()).unwrap_or_default();
    if mode & 0o077 != 0 {
        let help = format!("it holds a token: chmod 600 {name}");
        return Err(Failure::new(format!("{name} may be read by others")).hint(help));
    }
    let options = serde_yaml::options! { with_snippet: false }; // a snippet could show the token
    serde_yaml::from_str_with_options(&text, options)
        .map(Some)
        .map_err(|error| Failure::new(format!("cannot understand {name}: {error}")))
}

/// A data folder without a client file: nothing was started there, or somebody took the file away.
pub fn no_client_file(dir: &DataDir) -> Failure {
    if crate::supervisor::lock::holder(dir).is_none() {
        return no_controller(dir, "it was never started");
    }
    let text = format!("{} is missing", dir.client_file().display());
    Failure::new(text).hint("pintle down, then pintle up, writes it again")
}

/// The one line for a controller that is not there.
pub fn no_controller(dir: &DataDir, why: &str) -> Failure {
    if crate::supervisor::lock::holder(dir).is_some() {
        let text = format!("the controller of {} does not answer: {why}", dir.path().display());
        return Failure::new(text).hint(
            "one that ended is started again: try once more; one that hangs: pintle down, then pintle up",
        );
    }
    Failure::new(format!(
        "no controller is running for {}: {why}; start it with: pintle up",
        dir.path().display()
    ))
}

/// A failure to reach the controller in the words of [`no_controller`]; all others as they are.
pub fn explain(failure: Failure, dir: &DataDir) -> Failure {
    match &failure.unreachable {
        Some(why) => no_controller(dir, &why.to_lowercase()),
        None => failure,
    }
}

/// The name of the controller that a data folder has, and of the user who owns its models.
const CONTROLLER: &str = "here";
const OWNER: &str = "admin";

/// The bare name in `controller:user/name`. Refused: another controller, or another's model, than there is here.
pub fn model_name(text: &str) -> Result<&str, Failure> {
    let (controller, model) = text.split_once(':').unwrap_or((CONTROLLER, text));
    let (owner, name) = model.split_once('/').unwrap_or((OWNER, model));
    if controller != CONTROLLER {
        let hint = format!("this data folder has one controller, {CONTROLLER}; --data chooses another");
        return Err(Failure::new(format!("controller {controller:?} not found")).hint(hint));
    }
    if owner != OWNER || name.is_empty() || name.contains('/') {
        return Err(Failure::new(format!("model {model:?} not found")).hint("see: pintle models"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::error::{ApiError, ErrorCode};

    #[test]
    fn a_model_may_name_its_controller_and_owner() {
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
    fn a_controller_that_is_not_there_is_one_plain_line() {
        let dir = DataDir::choose(Some(std::path::Path::new("/data"))).expect("a path");
        let refused = Failure::from(ApiError::unreachable("127.0.0.1:1", "connection refused"));
        assert_eq!(
            explain(refused, &dir).message,
            "no controller is running for /data: connection refused; start it with: pintle up"
        );
        let unknown = Failure::from(ApiError::new(ErrorCode::NotFound, "application web is not there: no"));
        assert_eq!(explain(unknown.clone(), &dir), unknown);
    }

    #[test]
    fn a_client_file_that_others_may_read_is_refused() {
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
        assert!(failure.message.ends_with("client.yaml may be read by others"), "{failure:?}");
        chmod(0o600);
        assert_eq!(read_client_file(&dir).expect("private").expect("there").model, "dev");
    }
}
