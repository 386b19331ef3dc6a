//! The etcd of `pintle up --store etcd`: one member on this host, whose data is in the data folder.
//!
//! Other users of this host can neither read nor change the models: the data and the keys are in a folder that only its owner
//! can access, the port on the loopback interface accepts only clients with a certificate of its CA, and the socket for
//! other members is in the same folder. The supervisor starts it before the controllers, starts it again if it ends, and
//! stops it last. One member does not survive the loss of its disk; what this form adds to a database are controllers that
//! can end one by one.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::host_programs;
use crate::supervisor::settings::UpSettings;
use crate::supervisor::supervised_process::{Program, SupervisedProcess};
use api::etcd_file::local_etcd::{CA, CLIENT, CLIENT_KEY, SERVER, SERVER_KEY};
use api::etcd_file::{ETCD_FILE, EtcdConnection, EtcdFile};
use api::text::fault;
use host::file::{exists, ignore_not_found};
use host::open_folder::OpenFolder;
use host::process::Process;
use host::program::QUICK;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// The word with which `up --store` asks for this form.
pub const WORD: &str = "etcd";
/// The program, and the package of Debian that has it.
const PROGRAM: &str = "etcd";
const PACKAGE: &str = "etcd-server";
/// The database of a controller whose models are in the data folder.
const DATABASE: &str = "controller/store/store.sqlite";
/// Longest time until etcd serves. It takes a second; the rest is reserve for a slow disk.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether this data folder has its own etcd: `up` was told so, and no migration has moved the models elsewhere.
///
/// # Errors
/// If the settings, or what is recorded of etcd, cannot be read.
pub fn is_used(dir: &DataDir) -> Result<bool, CommandError> {
    let is_chosen = UpSettings::read(dir)?.local_etcd && !has_database(dir)?;
    Ok(is_chosen && recorded(dir)?.is_none_or(|connection| connection.is_of_local_etcd()))
}

/// An etcd that a person has started may have a CA at a path with the same end.
fn has_own_ca(dir: &DataDir) -> Result<bool, CommandError> {
    exists(&dir.etcd().join(CA)).map_err(|error| CommandError::new(error.to_string()))
}

fn has_database(dir: &DataDir) -> Result<bool, CommandError> {
    exists(&dir.path().join(DATABASE)).map_err(|error| CommandError::new(error.to_string()))
}

/// How a controller has reached etcd at its last start; none if its models were never there.
///
/// # Errors
/// If the file cannot be used.
pub fn recorded(dir: &DataDir) -> Result<Option<EtcdConnection>, CommandError> {
    let path = dir.path().join(ETCD_FILE);
    let unusable = |why: String| CommandError::new(format!("cannot use {}: {why}", path.display()));
    let text =
        ignore_not_found(std::fs::read_to_string(&path)).map_err(|error| unusable(error.to_string()))?;
    let Some(text) = text else { return Ok(None) };
    let file: EtcdFile = charms::yaml::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    Ok(file.connection)
}

/// Refuses this form for a data folder whose models are elsewhere.
///
/// # Errors
/// If the models are in a database, or in an etcd that `up` has not started.
pub fn require_no_other_store(dir: &DataDir) -> Result<(), CommandError> {
    if has_database(dir)? {
        let folder = dir.path().display();
        let text = format!("cannot start etcd: the models of {folder} are in a database there");
        return Err(CommandError::new(text).hint(format!(
            "to move them to an etcd that runs: pintle-controller migrate --data {folder} --to etcd://HOST"
        )));
    }
    let is_used = is_used(dir)?;
    let has_own_ca = has_own_ca(dir)?;
    // it is its own etcd, too, if it has lost its settings
    let is_own = |connection: &EtcdConnection| is_used || (has_own_ca && connection.is_of_local_etcd());
    match recorded(dir)? {
        Some(connection) if !is_own(&connection) => {
            let (folder, address) = (dir.path().display(), connection.address);
            Err(CommandError::new(format!("cannot start etcd: the models of {folder} are in {address}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a host without etcd, in one line.
///
/// # Errors
/// If the program is not on the path.
pub fn require_program() -> Result<(), CommandError> {
    match host_programs::is_installed(PROGRAM) {
        true => Ok(()),
        false => Err(CommandError::new(format!(
            "cannot start {PROGRAM}: it is not installed; on Debian: apt-get install {PACKAGE}"
        ))),
    }
}

/// A running etcd.
pub struct LocalEtcd {
    process: SupervisedProcess,
    address: SocketAddr,
    folder: PathBuf,
    log: PathBuf,
    /// The program of the controllers.
    controller: String,
}

impl LocalEtcd {
    /// Starts etcd, at a free port: the controllers are told its address at each start. `controller` makes the certificates, and
    /// tells when etcd answers.
    ///
    /// # Errors
    /// If the program is missing, or the certificates cannot be made.
    pub async fn start(
        dir: &DataDir,
        controller: &Path,
        data: Arc<OpenFolder>,
    ) -> Result<LocalEtcd, CommandError> {
        require_program()?;
        let folder = dir.etcd();
        let (program, path) = (controller.display().to_string(), folder.display().to_string());
        host_programs::run(&program, &["etcd-certificates", &path], QUICK).await?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let address = port.map_err(|error| CommandError::new(format!("cannot find a free port: {error}")))?;
        let log = dir.log("etcd");
        let process = SupervisedProcess::start(Program {
            path: PROGRAM.into(),
            arguments: arguments(&folder, address),
            working_folder: Some(folder.clone()),
            without_variables: own_variables(std::env::vars_os().map(|(name, _)| name)),
            folder: Some(data),
            log: log.clone(),
            pid_file: Some(dir.etcd_pid()),
            ..Program::default()
        });
        Ok(LocalEtcd { process, address, folder, log, controller: program })
    }

    /// The arguments with which a controller uses it.
    pub fn controller_arguments(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let (store, prefix) = (format!("etcd://{}", self.address), EtcdConnection::DEFAULT_PREFIX.to_owned());
        let flags = [
            ("--store", store),
            ("--store-prefix", prefix),
            ("--store-ca", file(CA)),
            ("--store-certificate", file(CLIENT)),
            ("--store-key", file(CLIENT_KEY)),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// Waits until it answers a controller. It accepts connections before it has opened its data, and so does another program
    /// at its port.
    ///
    /// # Errors
    /// If it ends again and again, or takes too long.
    pub async fn until_it_serves(&self) -> Result<(), CommandError> {
        let end = Instant::now() + START_TIMEOUT;
        let arguments = self.controller_arguments();
        let arguments: Vec<&str> =
            ["etcd-ready"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        loop {
            if TcpStream::connect(self.address).await.is_ok()
                && host_programs::run(&self.controller, &arguments, QUICK).await.is_ok()
            {
                return Ok(());
            }
            let exits = self.process.exits().filter(|exits| exits.is_failing());
            if exits.is_some() || Instant::now() > end {
                let why = exits.map_or_else(
                    || format!("it does not answer within {} s", START_TIMEOUT.as_secs()),
                    |exits| format!("it {}", fault::end(&exits.end, exits.count)),
                );
                let failure = CommandError::new(format!("cannot start {PROGRAM}: {why}"));
                return Err(failure.hint(format!("see {}; after the repair: pintle up", self.log.display())));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// See [`SupervisedProcess::retry_now`].
    pub fn retry_now(&self) {
        self.process.retry_now();
    }

    /// See [`SupervisedProcess::release`].
    pub fn release(self) -> Option<Process> {
        self.process.release()
    }
}

/// The variables of etcd, which would change what its arguments do not state, among these; but for the one without which
/// it does not start on some processors.
fn own_variables(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_own = |name: &OsString| {
        name.as_encoded_bytes().starts_with(b"ETCD_") && name.to_str() != Some("ETCD_UNSUPPORTED_ARCH")
    };
    names.filter(is_own).collect()
}

/// The arguments of etcd. It works in `folder`, in which it creates the socket for other members, of which there are none.
fn arguments(folder: &Path, address: SocketAddr) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (clients, members) = (format!("https://{address}"), "unix://peer:0");
    let flags = [
        ("name", "pintle".to_owned()),
        ("data-dir", file("data")),
        ("listen-client-urls", clients.clone()),
        ("advertise-client-urls", clients),
        ("cert-file", file(SERVER)),
        ("key-file", file(SERVER_KEY)),
        ("trusted-ca-file", file(CA)),
        ("listen-peer-urls", members.to_owned()),
        ("initial-advertise-peer-urls", members.to_owned()),
        ("initial-cluster", format!("pintle={members}")),
        // as docs/how-to/store-models-in-etcd.md asks for
        ("max-txn-ops", "2048".to_owned()),
        ("auto-compaction-retention", "1h".to_owned()),
        ("quota-backend-bytes", "8589934592".to_owned()),
        ("log-level", "error".to_owned()),
    ];
    let flags = flags.into_iter().map(|(flag, value)| format!("--{flag}={value}"));
    flags.chain(["--client-cert-auth".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_are_elsewhere_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        require_no_other_store(&dir).expect("a new folder");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("in a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        };
        let record = |address: &str, ca: &str| {
            let text = "cluster: '1'\nstore_generation: 00000000-0000-4000-8000-000000000001\nrevision: 1\n";
            write(
                ETCD_FILE,
                &format!("{text}connection:\n  address: {address}\n  prefix: /pintle\n  ca: {ca}\n"),
            );
        };
        record("etcd://192.0.2.1", "/etc/etcd/ca.pem");
        for settings in [false, true] {
            UpSettings { local_etcd: settings, ..UpSettings::default() }.write(&dir).expect("written");
            let refused = require_no_other_store(&dir).expect_err("another etcd");
            assert!(refused.message.contains("etcd://192.0.2.1"), "{refused:?}");
            assert!(!is_used(&dir).expect("readable"), "a migration has moved them");
        }
        record("etcd://127.0.0.1:23790", "/before/it/was/moved/etcd/ca.pem");
        require_no_other_store(&dir).expect("its own etcd");
        assert!(is_used(&dir).expect("readable"));
        std::fs::remove_file(folder.path().join("up.yaml")).expect("it exists");
        require_no_other_store(&dir).expect_err("the etcd of a person");
        write("etcd/ca.pem", "");
        require_no_other_store(&dir).expect("its own etcd");
        UpSettings { local_etcd: true, ..UpSettings::default() }.write(&dir).expect("written");
        write(DATABASE, "");
        let refused = require_no_other_store(&dir).expect_err("a database");
        assert!(refused.hint.expect("a remedy").contains("pintle-controller migrate"));
        assert!(!is_used(&dir).expect("readable"), "a migration has moved them");
    }
}
