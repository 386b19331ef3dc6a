//! The program `pintle-agent`: the agent of one unit, the agent of one machine, and commands that inspect or
//! repair their folders.

use agent::clock::HostClock;
use agent::config::{self, AgentConfig};
use agent::deployer::{AGENT_LOCK, Deployer, FINISHED};
use agent::file_watch::{self, FileWatch};
use agent::folder::{EXIT_DISK, UnitFolder};
use agent::hook_process::{HostCharms, socket_dir};
use agent::journal::{self, Loaded, Journal};
use agent::machine_agent::{self, MachineAgent};
use agent::program::hook_client;
use agent::reboot;
use agent::sd_notify::{self, NotifyState};
use agent::service::{self, AGENT_PID, ServiceManager, systemd};
use agent::tool_socket::{self, Gate};
use agent::unit_agent::{UnitAgentEnd, UnitAgent};
use agent::unit_supervisor::UnitSupervisor;
use agent::view_cache::ViewCache;
use agent::{enrolment, inspect, shim, uninstall};
use anyhow::{Context, Result, anyhow, bail};
use host::file::write_atomic_unsynced;
use host::lock::Lock;
use host::logging::{self, LEVEL_FILE, Level};
use host::process::Process;
use nix::sys::stat::{Mode, umask};
use state::terms::names::UnitName;
use state::unit::environment::{KUBERNETES_VARIABLES, MachineFacts};
use state::unit::local::{Local, Step};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::Instrument;

const USAGE: &str = "usage: pintle-agent unit --dir DIR
           Run the agent of one unit.
       pintle-agent machine --data DIR [--systemd]
           Run the agent of one machine. With --systemd, unit agents are systemd services.
       pintle-agent install --data DIR [--root ROOT --program PROGRAM]
           Install the machine agent as a systemd service, on this host or into the system below ROOT.
       pintle-agent enrol CONTROLLER SERVER-NAME MODEL MACHINE NAME
           Enrol this host as a machine. \"pintle add-machine manual\" prints the whole command.
       pintle-agent show DIR
           Show the stored state of a unit.
       pintle-agent why DIR
           Show what a unit waits for.
       pintle-agent resolve DIR --fresh
           Let a unit whose state was lost start from the beginning.";

/// The folder of a manually provisioned machine.
const DATA_DIR: &str = "/var/lib/pintle";
/// The exit code of an agent that was signalled or must restart; it is started again unless it was stopped.
const EXIT_SIGNALLED: u8 = 15;
/// The exit code of an agent that may not serve the unit or machine: another agent locks the folder, or the
/// folder is a copy or has diverged.
const EXIT_NOT_OWNER: u8 = 5;

fn main() -> ExitCode {
    agent::program::store_path();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["shim", run, program] => {
            umask(Mode::from_bits_truncate(0o022));
            shim::run(Path::new(run), Path::new(program)).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        ["unit", "--dir", dir] => run_async(|level| unit(PathBuf::from(dir), level)),
        ["machine", "--data", dir] => {
            run_async(|level| machine(PathBuf::from(dir), ServiceManager::Children, level))
        }
        ["machine", "--data", dir, "--systemd"] => {
            run_async(|level| machine(PathBuf::from(dir), ServiceManager::Systemd, level))
        }
        ["enrol", controller, server_name, model, machine, name] => {
            let arguments = [controller, server_name, model, machine, name].map(|text| (*text).to_owned());
            run_async(|_| enrol(arguments))
        }
        ["uninstall", "--data", dir] => run_async(|_| uninstall(PathBuf::from(dir))),
        ["install", "--data", dir] => run_async(|_| install(PathBuf::from(dir))),
        ["install", "--data", dir, "--root", root, "--program", program] => {
            systemd::install(Path::new(root), Path::new(program), Path::new(dir)).map(|()| ExitCode::SUCCESS)
        }
        ["show", dir] => run_async(|_| run_and_print(inspect::show(Path::new(dir)))),
        ["why", dir] => run_async(|_| run_and_print(inspect::why(Path::new(dir), hook_client()))),
        ["resolve", dir, "--fresh"] => run_async(|_| start_fresh(PathBuf::from(dir))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("ERROR {error:#}");
        ExitCode::FAILURE
    })
}

fn run_async<F: Future<Output = Result<ExitCode>>>(main: impl FnOnce(Level) -> F) -> Result<ExitCode> {
    let main = main(logging::start());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(main)
}

async fn run_and_print(text: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    print!("{}", text.await?);
    Ok(ExitCode::SUCCESS)
}

/// The unit's folder with its lock, because only one agent may run in a folder. The inner error means that
/// another agent holds the lock.
fn lock_folder(dir: PathBuf) -> Result<Result<(UnitFolder, Lock), String>> {
    // the canonical path identifies the folder, whatever path was given
    let dir = dir.canonicalize().with_context(|| format!("cannot open the folder {}", dir.display()))?;
    let folder = UnitFolder::new(dir);
    let holder = format!("pid {}", std::process::id());
    match Lock::take(&folder.file(AGENT_LOCK), &holder)? {
        Ok(lock) => Ok(Ok((folder, lock))),
        Err(held) => Ok(Err(format!("another agent holds the lock of {}: {}", folder.root().display(), held.0))),
    }
}

/// Loads the memory of the unit. For a unit without one, creates it.
///
/// # Errors
/// If the folder has another format or belongs to another unit, or the disk fails.
async fn load_memory(folder: &UnitFolder, config: &AgentConfig) -> Result<Journal<UnitFolder>> {
    let loaded = journal::load(folder).await.map_err(|failed| anyhow!("{failed}"))?;
    let name: UnitName = config.name.parse()?;
    let mut empty = Local::new(config.uuid, name);
    let (local, index, is_new) = match loaded {
        Loaded::Nothing => {
            // a folder with runs belongs to a unit whose memory was quarantined or deleted, not to a fresh unit
            empty.lost = folder.file("hooks").exists();
            empty.run = newest_run(folder);
            (empty, 0, true)
        }
        Loaded::Memory { local, index, notes } => {
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            if local.unit != config.uuid {
                bail!("cannot use {}: it has the memory of another unit ({})", folder.root().display(), local.name);
            }
            (*local, index, false)
        }
        Loaded::Corrupt { notes } => {
            notes.iter().for_each(|note| tracing::error!("{note}"));
            empty.lost = folder.file("hooks").exists();
            empty.run = newest_run(folder);
            (empty, 0, true)
        }
        Loaded::OtherFormat { format } => bail!(
            "cannot use {}: its format is {format}, and this pintle-agent uses format {}; nothing was changed\n\
             hint: run the pintle-agent of the version that wrote it",
            folder.root().display(),
            journal::FORMAT
        ),
    };
    let journal = Journal::open(folder.clone(), index, &local, is_new).await;
    journal.map_err(|failed| anyhow!("{failed}"))
}

/// The number of the newest run folder: runs are numbered from there, because a number must name one run only.
fn newest_run(folder: &UnitFolder) -> u64 {
    let entries = std::fs::read_dir(folder.file("hooks")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(0)
}

async fn unit(dir: PathBuf, level: Level) -> Result<ExitCode> {
    let (folder, _lock) = match lock_folder(dir)? {
        Ok(locked) => locked,
        Err(held) => {
            eprintln!("ERROR {held}");
            return Ok(ExitCode::from(EXIT_NOT_OWNER));
        }
    };
    umask(Mode::from_bits_truncate(0o077));
    let config = AgentConfig::read(folder.root())?;
    // before the pid file exists, because the machine agent sends this signal to its pid, and it would end the
    // process
    let mut hangup = signal(SignalKind::hangup())?;
    level.read(&folder.machine().join(LEVEL_FILE));
    Process::this().write(&folder.file(AGENT_PID))?;
    let journal = match load_memory(&folder, &config).await {
        Ok(journal) => journal,
        Err(error) => {
            eprintln!("ERROR {error:#}");
            return Ok(ExitCode::from(EXIT_DISK));
        }
    };
    let local = journal::read_only_load(&folder).await?.context("the memory that was just written cannot be read")?;
    link_tools(&folder)?;
    let socket = socket_dir(&folder)?.join("agent.socket");
    let has_started_run = matches!(local.step, Step::Started(_));
    let (gate, gate_seen) = watch::channel(if has_started_run { Gate::Undecided } else { Gate::Closed });
    let calls = tool_socket::listen(&socket, gate_seen)?;
    let host_environment = MachineFacts {
        charm_dir: folder.charm().display().to_string(),
        tools_dir: folder.tools().display().to_string(),
        socket: socket.display().to_string(),
        machine: config.machine.clone(),
        api_addresses: config.controllers.clone(),
        version: api::JUJU_VERSION.to_owned(),
        path: std::env::var("PATH").unwrap_or_default(),
        kubernetes: KUBERNETES_VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
        ..MachineFacts::default()
    };
    let charms = HostCharms::new(folder.clone(), host_environment, calls, gate);
    let clock = HostClock::new(&folder.machine().join(reboot::BOOT_FILE));
    let view = ViewCache::load(&folder).await;
    let view = view.filter(|view| view.unit.uuid == config.uuid);
    tracing::info!("{}: workflow {}", config.name, local.workflow());
    let unit_agent = UnitAgent::new((journal, config.client()?, charms, clock), local, view.map(Arc::new));
    let mut terminate = signal(SignalKind::terminate())?;
    sd_notify::send(NotifyState::Ready);
    let end = tokio::select! {
        end = unit_agent.run().instrument(tracing::info_span!("unit", name = config.name, uuid = %config.uuid)) => end,
        never = sd_notify::send_watchdog() => match never {},
        _ = terminate.recv() => {
            sd_notify::send(NotifyState::Stopping);
            return Ok(ExitCode::from(EXIT_SIGNALLED));
        }
        () = until_config_changes(&folder, &config, &level, &mut hangup) => {
            tracing::info!("{} was changed or deleted: restarting to read it", config::FILE);
            return Ok(ExitCode::from(EXIT_SIGNALLED));
        }
    };
    Ok(match end {
        UnitAgentEnd::Finished => {
            write_atomic_unsynced(&folder.file(FINISHED), b"")?;
            tracing::info!("{}: finished", config.name);
            ExitCode::SUCCESS
        }
        UnitAgentEnd::Copy(reason) => {
            eprintln!("ERROR {}: this folder is a copy: {reason}", config.name);
            ExitCode::from(EXIT_NOT_OWNER)
        }
        UnitAgentEnd::Forked(reason) => {
            eprintln!("ERROR {}: {reason}", config.name);
            ExitCode::from(EXIT_NOT_OWNER)
        }
        UnitAgentEnd::Reattach(reason) => {
            tracing::warn!("{}: {reason}: restarting", config.name);
            ExitCode::from(EXIT_SIGNALLED)
        }
        UnitAgentEnd::Disk(failed) => {
            eprintln!("ERROR the disk failed: {failed}");
            ExitCode::from(EXIT_DISK)
        }
    })
}

/// Completes when the unit's configuration has changed or was deleted: without its folder an agent is useless,
/// and nothing could find it. The machine agent notifies of changes with SIGHUP; the files are also polled.
async fn until_config_changes(folder: &UnitFolder, known: &AgentConfig, level: &Level, hangup: &mut Signal) {
    loop {
        level.read(&folder.machine().join(LEVEL_FILE));
        if AgentConfig::read(folder.root()).ok().as_ref() != Some(known) {
            return;
        }
        tokio::time::timeout(file_watch::POLL, hangup.recv()).await.ok();
    }
}

/// Applies the machine's log level whenever it changes, in this process and in the unit agents.
async fn follow_log_level(dir: &Path, level: &Level, deployer: &Deployer) -> Infallible {
    let watch = FileWatch::new(dir, LEVEL_FILE);
    loop {
        if level.read(&dir.join(LEVEL_FILE)) {
            deployer.deployed().values().for_each(service::reread_files);
        }
        watch.changed().await;
    }
}

/// Links every tool name to the one client (spec/hook-tools.md 1.1).
fn link_tools(folder: &UnitFolder) -> Result<()> {
    let tools = folder.tools();
    std::fs::create_dir_all(&tools)?;
    let client = hook_client()?;
    for name in commands::NAMES {
        let link = tools.join(name);
        if std::fs::read_link(&link).ok().as_ref() != Some(&client) {
            let temporary = tools.join(format!(".{name}.new"));
            std::fs::remove_file(&temporary).ok();
            std::os::unix::fs::symlink(&client, &temporary)?;
            std::fs::rename(&temporary, &link)?;
        }
    }
    Ok(())
}

/// Installs and starts the machine agent as a service of this host.
async fn install(data: PathBuf) -> Result<ExitCode> {
    if !systemd::is_running_system() {
        bail!(
            "cannot install a service: systemd does not run on this host, or this user is not root\n\
             hint: to run without systemd: pintle-agent machine --data DIR"
        );
    }
    hook_client()?;
    let data = data.canonicalize().with_context(|| format!("cannot open the folder {}", data.display()))?;
    // An earlier machine agent is stopped first, because otherwise:
    // 1. It has deleted its folder.
    // 2. A service is installed for the next machine.
    // 3. It deletes its own service, which is now that of the next machine.
    systemd::stop_machine().await?;
    systemd::install(Path::new("/"), agent::program::path(), &data)?;
    systemd::start_installed().await?;
    Ok(ExitCode::SUCCESS)
}

/// Resumes the uninstallation of a machine that a reboot interrupted.
async fn uninstall(data: PathBuf) -> Result<ExitCode> {
    uninstall::resume(&data).await?;
    Ok(ExitCode::SUCCESS)
}

/// Enrols this host as a manually provisioned machine, and installs the agent as a service if systemd runs.
async fn enrol([controller, server_name, model, machine, name]: [String; 5]) -> Result<ExitCode> {
    hook_client()?;
    let mut secrets = String::new();
    std::io::Read::read_to_string(&mut std::io::stdin(), &mut secrets)?;
    let data = Path::new(DATA_DIR);
    let request = enrolment::EnrolmentRequest { controller, server_name, model, machine, name, secrets };
    enrolment::enrol(data, request).await?;
    println!("Enrolled this host as a machine. Its folder is {DATA_DIR}.");
    if systemd::is_running_system() {
        println!("Hooks can reboot this host (juju-reboot).");
        return install(data.to_path_buf()).await;
    }
    println!(
        "systemd does not run on this host, or this user is not root. Keep this command running:\n    \
         pintle-agent machine --data {DATA_DIR}\n\
         A hook that requests a reboot (juju-reboot) does not reboot this host; it only restarts the agents."
    );
    Ok(ExitCode::SUCCESS)
}

async fn machine(dir: PathBuf, services: ServiceManager, level: Level) -> Result<ExitCode> {
    let dir = dir.canonicalize().with_context(|| format!("cannot open the folder {}", dir.display()))?;
    // without pintle-hook no unit agent would start; the agent of a Dead machine starts none
    if !uninstall::is_dead(&dir) {
        hook_client()?;
    }
    let holder = format!("pid {}", std::process::id());
    let _lock = match Lock::take(&dir.join(uninstall::LOCK), &holder)? {
        Ok(lock) => lock,
        Err(held) => {
            eprintln!("ERROR another machine agent holds the lock of {}: {}", dir.display(), held.0);
            return Ok(ExitCode::from(EXIT_NOT_OWNER));
        }
    };
    umask(Mode::from_bits_truncate(0o077));
    let config = AgentConfig::read(&dir)?;
    Process::this().write(&dir.join("machine.pid"))?;
    let deployer = Deployer::new(dir.clone(), config.clone(), services);
    let client = config.client()?;
    let machine_agent = || {
        let clock = HostClock::new(&dir.join(reboot::BOOT_FILE));
        MachineAgent::new(client.clone(), UnitSupervisor::new(deployer.clone()), clock)
    };
    sd_notify::send(NotifyState::Ready);
    // also for a Dead machine: after a reboot, the services of its units cannot be stopped without their
    // template
    if services == ServiceManager::Systemd {
        systemd::prepare(&dir).await?;
    }
    if !uninstall::is_dead(&dir) {
        deployer.delete_removed();
        reboot::finish_interrupted(&dir, &deployer).await?;
        let (running_agent, mut terminate) = (machine_agent(), signal(SignalKind::terminate())?);
        tokio::select! {
            machine_agent::MachineAgentEnd::Dead = running_agent.run().instrument(tracing::info_span!("machine", name = config.name)) => {}
            never = reboot::execute(&dir, &deployer, services) => match never? {},
            _ = terminate.recv() => {
                sd_notify::send(NotifyState::Stopping);
                return Ok(ExitCode::from(EXIT_SIGNALLED));
            }
            never = sd_notify::send_watchdog() => match never {},
            never = follow_log_level(&dir, &level, &deployer) => match never {},
        }
        uninstall::note_dead(&dir)?;
    }
    tracing::info!("this machine is Dead: uninstalling its agent");
    let uninstalled = async {
        machine_agent().uninstall_units().await?;
        deployer.delete_removed();
        if services == ServiceManager::Systemd { uninstall::uninstall(&dir).await } else { Ok(()) }
    };
    tokio::select! {
        result = uninstalled => result?,
        never = sd_notify::send_watchdog() => match never {},
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets a unit whose files were lost start from the beginning. The operator decides this, because its hooks run
/// again.
async fn start_fresh(dir: PathBuf) -> Result<ExitCode> {
    let (folder, _lock) = lock_folder(dir)?.map_err(|held| anyhow!("{held}\nhint: stop it first"))?;
    let config = AgentConfig::read(folder.root())?;
    let mut local = journal::read_only_load(&folder).await?.context("cannot read the memory of the unit")?;
    if !local.lost {
        bail!("cannot reset {}: its state was not lost", config.name);
    }
    local.lost = false;
    Journal::open(folder, 0, &local, true).await.map_err(|failed| anyhow!("{failed}"))?;
    println!("{} starts from the beginning when its agent starts.", config.name);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_config(folder: &Path) -> AgentConfig {
        let config = AgentConfig {
            kind: config::AgentKind::Unit,
            uuid: state::terms::names::Uuid(1),
            name: "web/0".into(),
            model: state::terms::names::Uuid(2),
            controllers: vec!["127.0.0.1:1".into()],
            server_name: String::new(),
            ca: String::new(),
            token: String::new(),
            machine: "0".into(),
        };
        write_atomic_unsynced(&folder.join(config::FILE), config.to_yaml().as_bytes()).unwrap();
        config
    }

    async fn detects_change(folder: &Path, known: &AgentConfig) -> bool {
        let level = LEVEL.get_or_init(logging::start);
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        let folder = UnitFolder::new(folder.into());
        let changes = until_config_changes(&folder, known, level, &mut hangup);
        tokio::time::timeout(file_watch::POLL * 2, changes).await.is_ok()
    }

    static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();

    #[tokio::test(start_paused = true)]
    async fn a_changed_or_deleted_configuration_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let known = write_config(dir.path());
        assert!(!detects_change(dir.path(), &known).await);
        assert!(detects_change(dir.path(), &AgentConfig { token: "an older one".into(), ..known.clone() }).await);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(detects_change(&path, &known).await);
    }
}
