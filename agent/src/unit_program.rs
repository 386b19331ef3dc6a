//! The process of a unit agent: it locks the unit's folder, loads the stored state, opens the tool socket, and runs
//! [`UnitAgent`] until it ends, a signal arrives, its configuration changes or its socket is deleted.
//!
//! Two agents never serve one folder. A folder of another format or of another unit is refused without a change.
//!
//! Called by `pintle-agent unit` and `pintle-agent resolve`.

use crate::clock::HostClock;
use crate::config;
use crate::exit_code;
use crate::fault::{self, FaultContext};
use crate::file_watch;
use crate::folder::{UnitFolder, run_number};
use crate::folder_port::FolderFiles;
use crate::hook_process::{CharmRunner, kill_forked, kill_unknown_runs};
use crate::hook_tools::{self, HookTools};
use crate::installed_programs::HOOK_PATH;
use crate::journal::{self, JOURNAL, Journal, Loaded, STATE};
use crate::juju_paths;
use crate::ports::UnitStorage;
use crate::reboot_request;
use crate::requested_commands::RequestedCommands;
use crate::sd_notify::{self, NotifyState};
use crate::socket_dir::{SOCKET, socket_dir};
use crate::tool_socket::{self, ContextState};
use crate::unit_agent::{UnitAgent, UnitAgentEnd};
use crate::view_cache::ViewCache;
use anyhow::{Context, Result, anyhow, bail};
use api::AgentConfig;
use api::machine_folder::{AGENT_LOCK, AGENT_PID, FINISHED};
use hook_client::shim;
use host::file::{ignore_not_found, write_atomic_unsynced};
use host::lock::Lock;
use host::logging::{LEVEL_FILE, LogFilter};
use host::open_folder::OpenFolder;
use host::process::Process;
use host::process_tree;
use nix::sys::signal::Signal as KillSignal;
use nix::sys::stat::{Mode, umask};
use state::terms::health::Fault;
use state::terms::names::{UnitName, Uuid};
use state::unit::environment::{KUBERNETES_VARIABLES, MachineFacts};
use state::unit::local::Local;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::Instrument;

/// The unit's folder with its lock, because only one agent may run in a folder. The inner error means that
/// another agent holds the lock.
fn lock_folder(dir: PathBuf) -> Result<Result<(UnitFolder, Lock), String>> {
    // the canonical path identifies the folder, whatever path was given
    let dir = dir.canonicalize().with_context(|| format!("cannot open the folder {}", dir.display()))?;
    let folder = UnitFolder::new(dir);
    let holder = format!("pid {}", std::process::id());
    let lock = folder.file(AGENT_LOCK);
    match Lock::take(&lock, &holder).with_context(|| format!("cannot lock {}", lock.display()))? {
        Ok(lock) => Ok(Ok((folder, lock))),
        Err(held) => {
            let (folder, holder) = (folder.root().display(), held.0);
            Ok(Err(format!("cannot use {folder}: another agent holds its lock: {holder}")))
        }
    }
}

/// The folder has the state of another unit than its configuration names.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {folder}: it has the state of another unit ({unit})")]
struct ForeignState {
    folder: String,
    unit: UnitName,
}

/// The exit code of an agent that cannot load the stored state.
fn load_exit_code(error: &anyhow::Error) -> u8 {
    match error.is::<ForeignState>() {
        true => exit_code::NOT_OWNER,
        false => fault::of_error(error).map_or(exit_code::STATE_ERROR, exit_code::of_fault),
    }
}

/// Loads the stored state of the unit. For a unit without one, creates it.
///
/// # Errors
/// If the folder has another format or belongs to another unit, or the disk fails.
async fn load_state(folder: &UnitFolder, config: &AgentConfig) -> Result<Journal<UnitFolder>> {
    let loaded = journal::load(folder).await?;
    let name: UnitName = config.name.parse()?;
    let new = match loaded {
        Loaded::Nothing => new_state(folder, config.uuid, name)?,
        Loaded::State { local, end, notes } => {
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            if local.unit != config.uuid {
                let folder = folder.root().display().to_string();
                return Err(ForeignState { folder, unit: local.name }.into());
            }
            match newest_hook(folder) {
                Some(hook) if local.lacks_run(hook) => {
                    for name in [STATE, JOURNAL] {
                        let aside = folder.set_aside(name).await?;
                        tracing::error!("{name} has no trace of run {hook}: moved to {aside}");
                    }
                    new_state(folder, config.uuid, name)?
                }
                Some(_) | None => return Ok(Journal::after(folder.clone(), end)),
            }
        }
        Loaded::Corrupt { notes } => {
            notes.iter().for_each(|note| tracing::error!("{note}"));
            new_state(folder, config.uuid, name)?
        }
        Loaded::OtherFormat { format } => {
            return Err(anyhow!(
                "cannot use {}: its format is {format}, and this pintle-agent uses format {}; nothing was changed\n\
                 hint: run the pintle-agent of the version that wrote it",
                folder.root().display(),
                journal::FORMAT
            )
            .context(FaultContext(Fault::FolderFormat)));
        }
    };
    Ok(Journal::create(folder.clone(), &new).await?)
}

/// The state of a unit without a stored one. A folder with runs belongs to a unit whose state was set aside or deleted,
/// not to a fresh unit.
fn new_state(folder: &UnitFolder, unit: Uuid, name: UnitName) -> Result<Local> {
    let run = newest_run(folder).with_context(|| format!("cannot read {}", folder.runs().display()))?;
    Ok(Local { state_lost: run.is_some(), run: run.unwrap_or(0), ..Local::new(unit, name) })
}

/// The number of the newest run whose hook was started. Its start was stored before, because the gate of its shim was opened.
fn newest_hook(folder: &UnitFolder) -> Option<u64> {
    let was_started = |run: &Path| [shim::HOOK_PID, shim::OUTCOME].iter().any(|file| run.join(file).exists());
    folder.kept_runs().into_iter().rev().find(|(_, run)| was_started(run)).map(|(number, _)| number)
}

/// The number of the newest run folder; none if no run was ever started. Runs are numbered from there, because a number
/// must name one run only.
fn newest_run(folder: &UnitFolder) -> std::io::Result<Option<u64>> {
    let Some(entries) = ignore_not_found(std::fs::read_dir(folder.runs()))? else { return Ok(None) };
    let mut newest = 0;
    for entry in entries {
        let number = entry?.file_name().to_str().and_then(run_number);
        newest = newest.max(number.unwrap_or(0));
    }
    Ok(Some(newest))
}

/// Runs the agent of the unit in the folder `dir` until it must end.
///
/// # Errors
/// If the agent cannot be started. The exit code is the reason why a started agent has ended.
pub async fn run(dir: PathBuf, log_filter: LogFilter) -> Result<ExitCode> {
    let (folder, _lock) = match lock_folder(dir)? {
        Ok(locked) => locked,
        Err(held) => {
            eprintln!("ERROR {held}");
            return Ok(ExitCode::from(exit_code::NOT_OWNER));
        }
    };
    let opened = OpenFolder::open(folder.root())?;
    umask(Mode::from_bits_truncate(0o077));
    let config = config::read(folder.root())?;
    // before the pid file exists, because the machine agent sends this signal to its pid, and it would end the
    // process
    let mut hangup = signal(SignalKind::hangup())?;
    log_filter.read(&folder.machine().join(LEVEL_FILE));
    let pid_file = folder.file(AGENT_PID);
    Process::current().write(&pid_file).with_context(|| format!("cannot write {}", pid_file.display()))?;
    let journal = match load_state(&folder, &config).await {
        Ok(journal) => journal,
        Err(error) => {
            eprintln!("ERROR {error:#}");
            return Ok(ExitCode::from(load_exit_code(&error)));
        }
    };
    let local =
        journal::read_only_load(&folder).await?.context("cannot read the state that was just written")?;
    let started_run = local.started_run().map(|run| run.number);
    // the shim of an earlier agent is no child of this one
    let reattached = local.started_run().map(|run| folder.started_run(run).join(shim::SHIM_PID));
    let reattached = reattached.and_then(|file| Process::read_alive(&file));
    let had_links = folder.tools().exists();
    hook_tools::link(&folder)?;
    let socket = socket_dir(&folder).map_err(socket_error)?.join(SOCKET);
    // an agent that ends leaves its socket
    let were_missing = started_run.is_some() && !(had_links && socket.exists());
    let (context_state, context_state_seen) =
        watch::channel(if started_run.is_some() { ContextState::Undecided } else { ContextState::Closed });
    let calls = tool_socket::listen(&socket, context_state_seen)?;
    let shown = juju_paths::shown_folder(&folder);
    let machine_facts = MachineFacts {
        charm_dir: shown.charm().display().to_string(),
        tools_dir: shown.tools().display().to_string(),
        socket: socket.display().to_string(),
        machine: config.machine.clone(),
        api_addresses: config.controllers.clone(),
        version: api::JUJU_VERSION.to_owned(),
        path: HOOK_PATH.to_owned(),
        kubernetes: KUBERNETES_VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
        ..MachineFacts::default()
    };
    kill_unknown_runs(&folder, started_run, local.state_lost).await;
    kill_forked(&folder).await;
    let charms = CharmRunner::new(folder.clone(), machine_facts, calls.tool_calls, context_state);
    let tools = Rc::new(HookTools::new(folder.clone(), calls.socket, were_missing));
    let charms = charms.with_warm_dispatch().with_tools(Rc::clone(&tools));
    let clock = HostClock::new(&folder.machine().join(reboot_request::BOOT_FILE));
    let view = ViewCache::load(&folder).await;
    let view = view.filter(|view| view.unit.uuid == config.uuid);
    // of an agent that ended during an outage
    journal.store_controller_error(None);
    tracing::info!("{}: the agent starts; workflow {}", config.name, local.workflow());
    let unit_agent = UnitAgent::new((journal, config.client()?, charms, clock), local, view.map(Arc::new))
        .with_commands(RequestedCommands::new(calls.requested_commands, folder.clone()));
    let mut terminate = signal(SignalKind::terminate())?;
    sd_notify::send(NotifyState::Ready);
    let end = tokio::select! {
        end = unit_agent.run().instrument(tracing::info_span!("unit", name = config.name, uuid = %config.uuid)) => end,
        never = sd_notify::send_watchdog() => match never {},
        _ = terminate.recv() => {
            sd_notify::send(NotifyState::Stopping);
            tracing::info!("{}: received SIGTERM, stopping", config.name);
            return Ok(ExitCode::from(exit_code::RESTART));
        }
        cause = until_restart(&folder, &opened, &config, &tools, &log_filter, &mut hangup) => {
            match cause {
                RestartCause::Configuration => {
                    tracing::info!("{} was changed or deleted: restarting to read it", AgentConfig::FILE);
                }
                RestartCause::Folder => {
                    tracing::error!("{} was moved or deleted: this agent ends, and its hook", folder.root().display());
                    let hooks = process_tree::children(&BTreeSet::from([Process::current()]));
                    for process in hooks.into_iter().chain(reattached).flat_map(process_tree::with_descendants) {
                        // an error means that it has ended
                        let _ = process.signal(KillSignal::SIGKILL);
                    }
                }
                RestartCause::Socket => tracing::warn!(
                    "{} was deleted: restarting to listen again",
                    socket.display()
                ),
            }
            return Ok(ExitCode::from(exit_code::RESTART));
        }
    };
    Ok(match end {
        UnitAgentEnd::Finished => {
            write_atomic_unsynced(&folder.file(FINISHED), b"")?;
            tracing::info!("{}: finished", config.name);
            ExitCode::SUCCESS
        }
        UnitAgentEnd::OlderState(reason) => {
            let state = api::text::fault::state(Fault::OlderState);
            eprintln!("ERROR {}: {state}: {reason}", config.name);
            ExitCode::from(exit_code::of_fault(Fault::OlderState))
        }
        UnitAgentEnd::Fenced(reason) | UnitAgentEnd::Diverged(reason) => {
            eprintln!("ERROR {}: {reason}", config.name);
            ExitCode::from(exit_code::NOT_OWNER)
        }
        UnitAgentEnd::AttachAgain(reason) => {
            tracing::warn!("{}: {reason}: restarting", config.name);
            ExitCode::from(exit_code::RESTART)
        }
        UnitAgentEnd::Disk(failed) => {
            eprintln!("ERROR the disk failed: {failed}");
            ExitCode::from(failed.fault.map_or(exit_code::STATE_ERROR, exit_code::of_fault))
        }
    })
}

/// The error of a tool socket that has no folder: a limit, or a folder of another user.
fn socket_error(error: std::io::Error) -> anyhow::Error {
    let limit = error.raw_os_error().and_then(fault::of_errno);
    anyhow::Error::new(error).context(FaultContext(limit.unwrap_or(Fault::SocketFolder)))
}

/// Why an agent that runs must start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartCause {
    /// The unit's configuration has changed or was deleted.
    Configuration,
    /// The unit's folder is not at its path any more: an agent is useless without it, and nobody could read the outcome of
    /// its hook. The next agent would not know of the hook either.
    Folder,
    /// The socket of the hook tools was deleted, for example by a program that cleans /tmp: no tool can reach the agent
    /// any more. The running hook continues, and its tools find the socket of the next agent under the same path.
    Socket,
}

/// Completes when the agent must start again. The machine agent notifies of changes with SIGHUP; the files are also
/// polled.
async fn until_restart(
    folder: &UnitFolder,
    opened: &OpenFolder,
    known: &AgentConfig,
    tools: &HookTools,
    log_filter: &LogFilter,
    hangup: &mut Signal,
) -> RestartCause {
    loop {
        log_filter.read(&folder.machine().join(LEVEL_FILE));
        if !opened.is_in_place() {
            return RestartCause::Folder;
        }
        if config::read(folder.root()).ok().as_ref() != Some(known) {
            return RestartCause::Configuration;
        }
        if tools.was_socket_removed() {
            return RestartCause::Socket;
        }
        tokio::time::timeout(file_watch::POLL, hangup.recv()).await.ok();
    }
}

/// Lets a unit whose files were lost start from the beginning. The operator decides this, because its hooks run
/// again.
///
/// # Errors
/// If an agent runs in the folder, its state was not lost, or the disk fails.
pub async fn start_fresh(dir: PathBuf) -> Result<ExitCode> {
    let (folder, _lock) = lock_folder(dir)?.map_err(|held| anyhow!("{held}\nhint: stop it first"))?;
    let config = config::read(folder.root())?;
    let mut local =
        journal::read_only_load(&folder).await?.context("cannot read the stored state of the unit")?;
    if !local.state_lost {
        bail!("cannot reset {}: its state was not lost", config.name);
    }
    local.state_lost = false;
    Journal::create(folder, &local).await.map_err(|failed| anyhow!("{failed}"))?;
    println!("{} starts from the beginning when its agent starts.", config.name);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::logging;

    fn write_config(folder: &Path) -> AgentConfig {
        let config = AgentConfig {
            kind: api::AgentKind::Unit,
            uuid: Uuid(1),
            name: "web/0".into(),
            model: Uuid(2),
            controllers: vec!["127.0.0.1:1".into()],
            server_name: String::new(),
            ca: String::new(),
            token: String::new(),
            machine: "0".into(),
        };
        write_atomic_unsynced(&folder.join(AgentConfig::FILE), config::to_yaml(&config).as_bytes()).unwrap();
        config
    }

    /// Why an agent with this configuration and socket starts again within two polls.
    async fn restart_cause(
        folder: &Path,
        opened: &OpenFolder,
        known: &AgentConfig,
        tools: &HookTools,
    ) -> Option<RestartCause> {
        let log_filter = LEVEL.get_or_init(logging::start);
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        let folder = UnitFolder::new(folder.into());
        let cause = until_restart(&folder, opened, known, tools, log_filter, &mut hangup);
        tokio::time::timeout(file_watch::POLL * 2, cause).await.ok()
    }

    fn listen_in(folder: &Path) -> HookTools {
        std::fs::create_dir_all(folder).unwrap();
        let (_, closed) = watch::channel(ContextState::Closed);
        let socket = tool_socket::listen(&folder.join(SOCKET), closed).unwrap().socket;
        HookTools::new(UnitFolder::new(folder.into()), socket, false)
    }

    static LEVEL: std::sync::OnceLock<LogFilter> = std::sync::OnceLock::new();

    #[tokio::test(start_paused = true)]
    async fn a_changed_or_deleted_configuration_is_detected() {
        let (dir, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (known, socket) = (write_config(dir.path()), listen_in(run.path()));
        let opened = OpenFolder::open(dir.path()).unwrap();
        assert_eq!(restart_cause(dir.path(), &opened, &known, &socket).await, None);
        let changed = AgentConfig { token: "an older one".into(), ..known.clone() };
        let cause = Some(RestartCause::Configuration);
        assert_eq!(restart_cause(dir.path(), &opened, &changed, &socket).await, cause);
        let file = dir.path().join(AgentConfig::FILE);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(restart_cause(dir.path(), &opened, &known, &socket).await, cause);
        write_config(dir.path());
        let path = dir.path().to_owned();
        drop(dir);
        assert_eq!(restart_cause(&path, &opened, &known, &socket).await, Some(RestartCause::Folder));
        std::fs::create_dir(&path).unwrap();
        write_config(&path);
        assert_eq!(restart_cause(&path, &opened, &known, &socket).await, Some(RestartCause::Folder));
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// Without its socket no tool of any later hook could reach the agent.
    #[tokio::test(start_paused = true)]
    async fn an_agent_whose_socket_was_deleted_or_replaced_starts_again() {
        let (dir, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (known, sockets) = (write_config(dir.path()), run.path().join("pintle-0/digest"));
        let socket = listen_in(&sockets);
        let opened = OpenFolder::open(dir.path()).unwrap();
        assert_eq!(restart_cause(dir.path(), &opened, &known, &socket).await, None);
        std::fs::rename(&sockets, run.path().join("moved")).unwrap();
        assert_eq!(restart_cause(dir.path(), &opened, &known, &socket).await, Some(RestartCause::Socket));
        let _of_another = listen_in(&sockets);
        assert_eq!(restart_cause(dir.path(), &opened, &known, &socket).await, Some(RestartCause::Socket));
    }

    #[tokio::test]
    async fn the_state_of_another_unit_is_refused_and_is_no_error_of_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let config = write_config(dir.path());
        let folder = UnitFolder::new(dir.path().into());
        drop(load_state(&folder, &config).await.unwrap());
        let other = AgentConfig { uuid: Uuid(9), ..config };
        let refused = load_state(&folder, &other).await.err().unwrap();
        assert_eq!(load_exit_code(&refused), exit_code::NOT_OWNER, "{refused:#}");
        assert_eq!(load_exit_code(&anyhow!("the disk failed")), exit_code::STATE_ERROR);
    }

    /// A journal that is deleted leaves a `state.yaml` that looks complete.
    #[tokio::test]
    async fn a_stored_state_that_lacks_a_hook_that_was_started_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let config = write_config(dir.path());
        let folder = UnitFolder::new(dir.path().into());
        drop(load_state(&folder, &config).await.unwrap());
        let write = |run: u64, file: &str| {
            std::fs::create_dir_all(folder.run(run)).unwrap();
            std::fs::write(folder.run(run).join(file), "").unwrap();
        };
        let loaded = async || {
            drop(load_state(&folder, &config).await.unwrap());
            let local = journal::read_only_load(&folder).await.unwrap().unwrap();
            (local.state_lost, local.run)
        };
        write(1, shim::SHIM_PID);
        assert_eq!(loaded().await, (false, 0), "its gate was not opened");
        write(2, shim::HOOK_PID);
        write(3, shim::SHIM_PID);
        assert_eq!(loaded().await, (true, 3));
        assert!(folder.file("state.yaml.corrupt-1").exists());
        assert_eq!(loaded().await, (true, 3), "it is not set aside again");
        assert!(!folder.file("state.yaml.corrupt-2").exists());
    }
}
