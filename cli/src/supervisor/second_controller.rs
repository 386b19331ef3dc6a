//! The second controller of `pintle up --store etcd`, so that commands and agents continue while one of the two is down.
//!
//! Its data folder is in that of the first one, made by `pintle-controller add-controller` once the first one serves. It has
//! nothing that is not copied, except its address and a cache: a copy that does not fit any more, for example after
//! `up --restored`, is made again. Once it answers, its address is written into the `client.yaml` of the data folder, from
//! which commands read it, and agents of machines that are started then.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::{client, read_client_file};
use crate::supervisor::host_programs;
use crate::supervisor::supervised_process::{Program, SupervisedProcess};
use api::{ClientFile, GetAbout, Handle};
use host::file::{ignore_not_found, write_atomic};
use host::open_folder::OpenFolder;
use host::process::Process;
use host::program::QUICK;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;

/// How long a start waits for it before it continues without it: as long as a start of a controller takes on a busy host.
pub const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after a copy could not be made.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Returns its address in the list of the first one's `client.yaml`, if it answers there.
///
/// # Errors
/// If a client file cannot be read.
pub async fn listed_address(dir: &DataDir) -> Result<Option<String>, CommandError> {
    let (first, second) = (read_client_file(dir)?, read_client_file(&dir.second_controller())?);
    let Some((first, second)) = first.zip(second) else { return Ok(None) };
    let is_listed = first.other_controllers.contains(&second.controller);
    Ok((is_listed && answers(&second).await).then_some(second.controller))
}

/// Whether the controller of a client file answers at its address. Another program that listens there does not: it lacks the
/// certificate.
async fn answers(file: &ClientFile) -> bool {
    let file = ClientFile { other_controllers: Vec::new(), ..file.clone() };
    match client(&file) {
        Ok(client) => client.handle(GetAbout).await.is_ok(),
        Err(_) => false,
    }
}

async fn listens(address: &str) -> bool {
    TcpStream::connect(address).await.is_ok()
}

/// A second controller.
pub struct SecondController {
    dir: DataDir,
    program: PathBuf,
    arguments: Vec<String>,
    folder: Arc<OpenFolder>,
    process: Mutex<Option<SupervisedProcess>>,
    listed: Notify,
}

impl SecondController {
    /// Describes the second controller of a data folder. `arguments`: those of both controllers, without the data folder.
    pub fn new(
        dir: DataDir,
        program: PathBuf,
        arguments: Vec<String>,
        folder: Arc<OpenFolder>,
    ) -> SecondController {
        SecondController { dir, program, arguments, folder, process: Mutex::default(), listed: Notify::new() }
    }

    /// Starts it once the first one serves, and lists its address. The process is kept running from its start on: no attempt
    /// after that changes its data folder, or starts another process in it.
    pub async fn follow(&self) -> Infallible {
        // an attempt to copy may delete it
        let before = read_client_file(&self.dir.second_controller()).ok().flatten();
        while let Err(failure) = self.prepare().await {
            tracing::warn!("cannot start the second controller, retrying: {}", failure.message);
            sleep(RETRY_PAUSE).await;
        }
        self.start();
        let before = before.map(|file| file.controller);
        while let Err(failure) = self.list(before.as_deref()).await {
            tracing::warn!("cannot list the second controller, retrying: {}", failure.message);
            sleep(RETRY_PAUSE).await;
        }
        self.listed.notify_one();
        std::future::pending().await
    }

    /// Waits until it is listed, for a bounded time.
    pub async fn until_listed(&self) {
        if tokio::time::timeout(START_TIMEOUT, self.listed.notified()).await.is_err() {
            let log = self.dir.log("controller-2");
            tracing::warn!("the second controller does not serve, see above and {}", log.display());
        }
    }

    /// Makes its data folder once the first one serves.
    async fn prepare(&self) -> Result<(), CommandError> {
        let second = self.dir.second_controller();
        loop {
            match read_client_file(&self.dir)? {
                Some(file) if listens(&file.controller).await => break,
                _ => sleep(POLL_INTERVAL).await,
            }
        }
        if let Err(failure) = self.copy().await {
            tracing::info!("the second controller gets a new data folder: {}", failure.message);
            let path = second.path().display();
            ignore_not_found(std::fs::remove_dir_all(second.path()))
                .map_err(|error| CommandError::new(format!("cannot delete {path}: {error}")))?;
            self.copy().await?;
        }
        Ok(())
    }

    fn start(&self) {
        let second = self.dir.second_controller();
        let mut arguments = vec!["--data".to_owned(), second.path().display().to_string()];
        arguments.extend(self.arguments.iter().cloned());
        let process = SupervisedProcess::start(Program {
            path: self.program.clone(),
            arguments,
            folder: Some(self.folder.clone()),
            log: self.dir.log("controller-2"),
            pid_file: Some(second.controller_pid()),
            exits_file: Some(second.controller_exits()),
            ..Program::default()
        });
        *self.process.lock().expect("no holder panics") = Some(process);
    }

    /// Makes its data folder, or completes it.
    async fn copy(&self) -> Result<(), CommandError> {
        let (program, second) = (self.program.display().to_string(), self.dir.second_controller());
        let (from, to) = (self.dir.path().display().to_string(), second.path().display().to_string());
        host_programs::run(&program, &["add-controller", "--data", &from, "--to", &to], QUICK).await.map(drop)
    }

    /// Waits until it answers, and writes its address into the client file of the first one, in the place of the one that it
    /// had before.
    async fn list(&self, before: Option<&str>) -> Result<(), CommandError> {
        let path = self.dir.client_file();
        let first = || {
            let file = read_client_file(&self.dir)?;
            file.ok_or_else(|| CommandError::new(format!("{} is missing", path.display())))
        };
        let address = loop {
            // the copy has the address of the first one until the second one listens
            match read_client_file(&self.dir.second_controller())? {
                Some(file) if file.controller != first()?.controller && answers(&file).await => {
                    break file.controller;
                }
                _ => sleep(POLL_INTERVAL).await,
            }
        };
        let file = first()?;
        let listed = with_address(file.clone(), &address, before);
        if listed == file {
            return Ok(());
        }
        write_atomic(&path, charms::yaml::to_string(&listed).expect("plain data").as_bytes())
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", path.display())))
    }

    /// See [`SupervisedProcess::retry_now`].
    pub fn retry_now(&self) {
        if let Some(process) = &*self.process.lock().expect("no holder panics") {
            process.retry_now();
        }
    }

    /// See [`SupervisedProcess::release`].
    pub fn release(&self) -> Option<Process> {
        self.process.lock().expect("no holder panics").take()?.release()
    }
}

/// The file with this address among the others, in the place of the one `before`.
fn with_address(mut file: ClientFile, address: &str, before: Option<&str>) -> ClientFile {
    let is_old = |other: &String| other != address && Some(other.as_str()) == before;
    let is_first = file.controller.clone();
    file.other_controllers.retain(|other| !is_old(other) && *other != is_first);
    if !file.other_controllers.iter().any(|other| other == address) {
        file.other_controllers.push(address.to_owned());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::agent_file::client_file;

    #[tokio::test]
    async fn another_program_at_its_address_does_not_pass_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let accepts = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        std::fs::create_dir(dir.second_controller().path()).expect("made");
        let first = with_address(client_file("127.0.0.1:1"), &address, None);
        for (file, content) in
            [(dir.client_file(), first), (dir.second_controller().client_file(), client_file(&address))]
        {
            let text = charms::yaml::to_string(&content).expect("plain data");
            write_atomic(&file, text.as_bytes()).expect("written");
        }
        assert_eq!(listed_address(&dir).await.expect("readable"), None);
        accepts.abort();
    }

    #[test]
    fn the_address_is_listed_once_and_replaces_the_former_one() {
        let of = |others: &[&str]| ClientFile {
            other_controllers: others.iter().map(|other| (*other).to_owned()).collect(),
            ..client_file("127.0.0.1:1")
        };
        assert_eq!(with_address(of(&[]), "127.0.0.1:2", Some("127.0.0.1:1")), of(&["127.0.0.1:2"]));
        let known = of(&["192.0.2.1:1", "127.0.0.1:2"]);
        assert_eq!(with_address(known.clone(), "127.0.0.1:2", Some("127.0.0.1:2")), known);
        assert_eq!(
            with_address(known, "127.0.0.1:3", Some("127.0.0.1:2")),
            of(&["192.0.2.1:1", "127.0.0.1:3"])
        );
    }
}
