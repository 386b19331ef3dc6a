//! `supervise`: the supervisor process of a data folder. Hidden: started by `up` only.
//!
//! Starts the controller and the machines of the configured provider, restarts the controller if it exits, and stops
//! everything on SIGTERM. With an etcd of the data folder (`up --store etcd`), etcd is started before the controller, and a
//! second controller after it. If the controller refuses its store at the first start, or `up` gives up and sends SIGQUIT, the
//! supervisor ends as well; machine agents that a former supervisor has left running continue. It holds the lock of the data folder while it
//! runs. On SIGHUP, which `up` sends, a controller that waits for its next start is started at once. If the data folder is
//! moved or deleted, everything is stopped: agents find nothing at its path any more.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::local_etcd::{self, LocalEtcd};
use crate::supervisor::machines::MachineSupervisor;
use crate::supervisor::provider::AnyProvider;
use crate::supervisor::provider::bases::Bases;
use crate::supervisor::provider::local::Local;
use crate::supervisor::provider::nspawn::{self, Nspawn};
use crate::supervisor::second_controller::SecondController;
use crate::supervisor::settings::UpSettings;
use crate::supervisor::stop::Servers;
use crate::supervisor::supervised_process::{Program, SupervisedProcess};
use crate::supervisor::{identity, lock, stop};
use clap::Args;
use host::open_folder::OpenFolder;
use host::process::Process;
use host::restart::EXIT_REFUSED;
use state::terms::provider_kind::ProviderKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// Arguments of `supervise`.
#[derive(Debug, Args)]
pub struct SuperviseArgs {}

/// Why the supervisor ends.
enum Ending {
    /// Everything is to be stopped.
    Stopped,
    /// The command that started this supervisor has given up.
    Abandoned,
    /// The controller has refused its store at the first start.
    Refused,
    /// The data folder is not at its path any more.
    FolderLost,
}

/// How often the supervisor looks whether its data folder is in place: one `stat` a second.
const FOLDER_POLL: Duration = Duration::from_secs(1);

/// Runs until a signal ends it, then stops what it started.
///
/// # Errors
/// If another supervisor runs, a program is missing, the controller refuses its store, or a process does not exit.
pub async fn run(dir: &DataDir) -> Result<(), CommandError> {
    // A new session detaches the supervisor from the signals and the hang-up of the terminal. setsid fails only for a
    // process group leader, which is detached already.
    let _ = nix::unistd::setsid();
    let to_error = |error: std::io::Error| CommandError::new(format!("cannot catch signals: {error}"));
    let mut end = signal(SignalKind::terminate()).map_err(to_error)?;
    let mut abandon = signal(SignalKind::quit()).map_err(to_error)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(to_error)?;
    // Before the lock is taken, because `up` sends the signal to the holder of the lock.
    let mut retry = signal(SignalKind::hangup()).map_err(to_error)?;
    identity::check(dir)?;
    let folder = OpenFolder::open(dir.path())
        .map_err(|error| CommandError::new(format!("cannot open {}: {error}", dir.path().display())))?;
    let folder = Arc::new(folder);
    let _held = lock::acquire(dir)?;
    host::logging::start();
    let (controller, agent) = (program("pintle-controller")?, program("pintle-agent")?);
    // Unit agents require pintle-hook in the folder of their own program.
    program("pintle-hook")?;

    // A killed supervisor leaves its controllers running, and a data folder has only one.
    stop::stop_orphans(dir, vec![]).await;
    let settings = UpSettings::read(dir)?;
    let (provider, gateway) = match settings.provider {
        ProviderKind::Local => (AnyProvider::Local(Local::new(dir.clone(), agent)), None),
        ProviderKind::Nspawn => {
            let nspawn = Nspawn::open(dir.clone(), agent, Bases::of_settings(&settings, dir)).await?;
            let gateway = nspawn.gateway();
            (AnyProvider::Nspawn(nspawn), Some(gateway))
        }
    };
    let mut common = Vec::new();
    for address in gateway.iter().cloned().chain(settings.listen.map(|listen| listen.to_string())) {
        common.extend(["--also-listen".to_owned(), address]);
    }
    let mut etcd = match local_etcd::is_used(dir)? {
        true => Some(LocalEtcd::start(dir, &controller, folder.clone()).await?),
        false => None,
    };
    if let Some(started) = etcd.take() {
        let serves = tokio::select! {
            serves = started.until_it_serves() => serves,
            _ = abandon.recv() => Err(CommandError::new("stopped before etcd has served")),
            _ = end.recv() => Err(CommandError::new("stopped before etcd has served")),
        };
        if let Err(failure) = serves {
            // it would be started again when it is stopped
            stop::stop_orphans(dir, started.release().into_iter().collect()).await;
            return Err(failure);
        }
        common.extend(started.controller_arguments());
        etcd = Some(started);
    }
    let second = etcd
        .as_ref()
        .map(|_| SecondController::new(dir.clone(), controller.clone(), common.clone(), folder.clone()));
    let mut arguments = vec!["--data".to_owned(), dir.path().display().to_string()];
    arguments.extend(common);
    let controller = SupervisedProcess::start(Program {
        path: controller,
        arguments,
        argument_while: Some((dir.restored_mark(), "--restored")),
        folder: Some(folder.clone()),
        log: dir.log("controller"),
        pid_file: Some(dir.controller_pid()),
        exits_file: Some(dir.controller_exits()),
        ..Program::default()
    });
    let mut machines = MachineSupervisor::new(dir.clone(), provider, gateway);
    let ending = {
        let mut machines = std::pin::pin!(async {
            // agents read the addresses when they start
            if let Some(second) = &second {
                second.until_listed().await;
            }
            machines.follow().await;
        });
        let mut second_runs = std::pin::pin!(async {
            match &second {
                Some(second) => second.follow().await,
                None => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                () = controller.refused() => break Ending::Refused,
                _ = abandon.recv() => break Ending::Abandoned,
                _ = end.recv() => break Ending::Stopped,
                _ = interrupt.recv() => break Ending::Stopped,
                () = until_lost(&folder) => break Ending::FolderLost,
                () = &mut machines => break Ending::Stopped,
                never = &mut second_runs => match never {},
                _ = retry.recv() => {
                    controller.retry_now();
                    etcd.iter().for_each(LocalEtcd::retry_now);
                    second.iter().for_each(SecondController::retry_now);
                }
            }
        }
    };
    let agents = machines.release();
    // They are no longer restarted, but run until the agents have ended.
    let servers = Servers {
        controllers: controller.release().into_iter().chain(second.and_then(|it| it.release())).collect(),
        etcd: etcd.and_then(LocalEtcd::release),
    };
    match ending {
        Ending::Stopped => stop_all(dir, servers, agents).await,
        Ending::FolderLost => {
            tracing::error!("{} was moved or deleted: everything is stopped", dir.path().display());
            let moved = DataDir::choose(Some(&folder.current_path()))?;
            stop_all(if folder.is_deleted() { dir } else { &moved }, servers, agents).await
        }
        Ending::Refused | Ending::Abandoned => {
            // Units and containers do not depend on this start, which has failed.
            stop::stop_orphans(dir, agents).await;
            if matches!(ending, Ending::Abandoned) {
                return Ok(());
            }
            Err(CommandError { code: EXIT_REFUSED, ..CommandError::new("the controller refuses its store") })
        }
    }
}

/// Completes when the folder is not at its path any more.
async fn until_lost(folder: &OpenFolder) {
    while folder.is_in_place() {
        sleep(FOLDER_POLL).await;
    }
}

/// Stops everything. `agents`: those that this supervisor has started.
async fn stop_all(dir: &DataDir, servers: Servers, agents: Vec<Process>) -> Result<(), CommandError> {
    let halted = nspawn::stop_all_containers(dir).await;
    let left = stop::stop_children(dir, agents, servers).await.left;
    match left.first() {
        None => halted.map(drop),
        Some(process) => Err(CommandError::not_stopped(*process)),
    }
}

/// The path of another executable of Pintle, which must be in the same folder as this one.
///
/// # Errors
/// If it is not there.
pub fn program(name: &str) -> Result<PathBuf, CommandError> {
    let this_program = std::env::current_exe()
        .map_err(|error| CommandError::new(format!("cannot find this program: {error}")))?;
    let path = this_program.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(CommandError::new(format!("{} is missing", path.display()))
        .hint("install all executables of Pintle in one folder"))
}
