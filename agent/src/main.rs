//! `pintle-agent`: the agent of one unit, the agent of one machine, and looks at their files.

use agent::clock::HostClock;
use agent::config::{self, Config};
use agent::deployer::{AGENT_LOCK, Deployer, FINISHED};
use agent::file_watch::{self, FileWatch};
use agent::folder::{EXIT_DISK, Folder};
use agent::hook_process::{HostCharms, socket_dir};
use agent::journal::{self, Found, Journal};
use agent::machine_agent::{self, Machiner};
use agent::program::hook_client;
use agent::reboot;
use agent::sd_notify::{self, NotifyState};
use agent::service::{self, AGENT_PID, ServiceManager, systemd};
use agent::tool_socket::{self, Gate};
use agent::unit_agent::{End, Uniter};
use agent::unit_supervisor::Tended;
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

const USAGE: &str = "usage: pintle-agent unit --dir DIR      the agent of one unit
       pintle-agent machine --data DIR [--systemd]
                                        the agent of one machine; its units' agents are services of systemd
       pintle-agent install --data DIR [--root ROOT --program PROGRAM]
                                        makes the machine's agent a service of systemd, here or in a system below ROOT
       pintle-agent enrol CONTROLLER SERVER-NAME MODEL MACHINE NAME
                                        makes this host a machine: pintle add-machine manual tells the whole command
       pintle-agent show DIR            what a unit remembers
       pintle-agent why DIR             what a unit waits for
       pintle-agent resolve DIR --fresh runs a unit whose state was lost from its beginning";

/// The folder of a machine that a person brought.
const DATA: &str = "/var/lib/pintle";
/// Ended by a signal; the machine agent starts it again unless it is told otherwise.
const EXIT_ASKED: u8 = 15;
/// Another agent holds the folder, or serves the unit.
const EXIT_COPY: u8 = 5;

fn main() -> ExitCode {
    agent::program::remember();
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
            let said = [controller, server_name, model, machine, name].map(|word| (*word).to_owned());
            run_async(|_| enrol(said))
        }
        ["uninstall", "--data", dir] => run_async(|_| uninstall(PathBuf::from(dir))),
        ["install", "--data", dir] => run_async(|_| install(PathBuf::from(dir))),
        ["install", "--data", dir, "--root", root, "--program", program] => {
            systemd::install(Path::new(root), Path::new(program), Path::new(dir)).map(|()| ExitCode::SUCCESS)
        }
        ["show", dir] => run_async(|_| print(inspect::show(Path::new(dir)))),
        ["why", dir] => run_async(|_| print(inspect::why(Path::new(dir), hook_client()))),
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

async fn print(text: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    print!("{}", text.await?);
    Ok(ExitCode::SUCCESS)
}

/// The unit's folder with its lock: one agent per folder.
fn enter(dir: PathBuf) -> Result<Result<(Folder, Lock), String>> {
    // the same folder by any name has one identity
    let dir = dir.canonicalize().with_context(|| format!("cannot enter {}", dir.display()))?;
    let folder = Folder::new(dir);
    let holder = format!("pid {}", std::process::id());
    match Lock::take(&folder.file(AGENT_LOCK), &holder)? {
        Ok(lock) => Ok(Ok((folder, lock))),
        Err(held) => Ok(Err(format!("another agent holds {}: {}", folder.root().display(), held.0))),
    }
}

/// What the folder remembers; an error when it has another format.
async fn remember(folder: &Folder, config: &Config) -> Result<Journal<Folder>> {
    let found = journal::load(folder).await.map_err(|failed| anyhow!("{failed}"))?;
    let name: UnitName = config.name.parse()?;
    let mut fresh = Local::new(config.uuid, name);
    let (local, index, is_new) = match found {
        Found::Nothing => {
            // files that were set aside, or deleted, are not a unit that has done nothing
            fresh.lost = folder.file("hooks").exists();
            fresh.run = newest_run(folder);
            (fresh, 0, true)
        }
        Found::Memory { local, index, notes } => {
            notes.iter().for_each(|note| tracing::warn!("{note}"));
            if local.unit != config.uuid {
                bail!("{} holds the memory of another unit ({})", folder.root().display(), local.name);
            }
            (*local, index, false)
        }
        Found::Lost { notes } => {
            notes.iter().for_each(|note| tracing::error!("{note}"));
            fresh.lost = folder.file("hooks").exists();
            fresh.run = newest_run(folder);
            (fresh, 0, true)
        }
        Found::OtherFormat { format } => bail!(
            "cannot use {}: its format is {format}, and this pintle-agent uses format {}; nothing was changed\n\
             hint: run the pintle-agent of the version that wrote it",
            folder.root().display(),
            journal::FORMAT
        ),
    };
    let journal = Journal::begin(folder.clone(), index, &local, is_new).await;
    journal.map_err(|failed| anyhow!("{failed}"))
}

/// Runs are counted on from the folders that are there: a number names one run only.
fn newest_run(folder: &Folder) -> u64 {
    let entries = std::fs::read_dir(folder.file("hooks")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(0)
}

async fn unit(dir: PathBuf, level: Level) -> Result<ExitCode> {
    let (folder, _lock) = match enter(dir)? {
        Ok(entered) => entered,
        Err(held) => {
            eprintln!("ERROR {held}");
            return Ok(ExitCode::from(EXIT_COPY));
        }
    };
    umask(Mode::from_bits_truncate(0o077));
    let config = Config::read(folder.root())?;
    // before the pid file tells the machine agent whom to send it to: unhandled, it ends the process
    let mut told = signal(SignalKind::hangup())?;
    level.read(&folder.machine().join(LEVEL_FILE));
    Process::this().write(&folder.file(AGENT_PID))?;
    let journal = match remember(&folder, &config).await {
        Ok(journal) => journal,
        Err(error) => {
            eprintln!("ERROR {error:#}");
            return Ok(ExitCode::from(EXIT_DISK));
        }
    };
    let local = journal::peek(&folder).await?.context("the memory was just written")?;
    link_tools(&folder)?;
    let socket = socket_dir(&folder)?.join("agent.socket");
    let orphan = matches!(local.step, Step::Started(_));
    let (gate, gate_seen) = watch::channel(if orphan { Gate::Undecided } else { Gate::Closed });
    let calls = tool_socket::listen(&socket, gate_seen)?;
    let around = MachineFacts {
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
    let charms = HostCharms::new(folder.clone(), around, calls, gate);
    let clock = HostClock::new(&folder.machine().join(reboot::BOOT_FILE));
    let view = ViewCache::load(&folder).await;
    let view = view.filter(|view| view.unit.uuid == config.uuid);
    tracing::info!("{}: workflow {}", config.name, local.workflow());
    let uniter = Uniter::new((journal, config.client()?, charms, clock), local, view.map(Arc::new));
    let mut asked = signal(SignalKind::terminate())?;
    sd_notify::send(NotifyState::Ready);
    let end = tokio::select! {
        end = uniter.run().instrument(tracing::info_span!("unit", name = config.name, uuid = %config.uuid)) => end,
        never = sd_notify::send_watchdog() => match never {},
        _ = asked.recv() => {
            sd_notify::send(NotifyState::Stopping);
            return Ok(ExitCode::from(EXIT_ASKED));
        }
        () = until_config_changes(&folder, &config, &level, &mut told) => {
            tracing::info!("{} changed or is gone: starting again to read it", config::FILE);
            return Ok(ExitCode::from(EXIT_ASKED));
        }
    };
    Ok(match end {
        End::Finished => {
            write_atomic_unsynced(&folder.file(FINISHED), b"")?;
            tracing::info!("{} is finished", config.name);
            ExitCode::SUCCESS
        }
        End::Copy(why) => {
            eprintln!("ERROR {}: this folder is a copy: {why}", config.name);
            ExitCode::from(EXIT_COPY)
        }
        End::Forked(why) => {
            eprintln!("ERROR {}: {why}", config.name);
            ExitCode::from(EXIT_COPY)
        }
        End::Reattach(why) => {
            tracing::warn!("{}: {why}: starting again", config.name);
            ExitCode::from(EXIT_ASKED)
        }
        End::Disk(failed) => {
            eprintln!("ERROR the disk failed: {failed}");
            ExitCode::from(EXIT_DISK)
        }
    })
}

/// Completes when the unit's configuration has changed or is gone: an agent without a folder would act for nobody and
/// be found by nobody. The machine agent tells of changes (SIGHUP); besides, the files are polled.
async fn until_config_changes(folder: &Folder, known: &Config, level: &Level, told: &mut Signal) {
    loop {
        level.read(&folder.machine().join(LEVEL_FILE));
        if Config::read(folder.root()).ok().as_ref() != Some(known) {
            return;
        }
        tokio::time::timeout(file_watch::POLL, told.recv()).await.ok();
    }
}

/// Applies the machine's log level whenever it changes, here and in the unit agents.
async fn follow_log_level(dir: &Path, level: &Level, deployer: &Deployer) -> Infallible {
    let watch = FileWatch::new(dir, LEVEL_FILE);
    loop {
        if level.read(&dir.join(LEVEL_FILE)) {
            deployer.deployed().values().for_each(service::reread_files);
        }
        watch.changed().await;
    }
}

/// Every tool's name, as a link to the one client (spec/hook-tools.md 1.1).
fn link_tools(folder: &Folder) -> Result<()> {
    let tools = folder.tools();
    std::fs::create_dir_all(&tools)?;
    let client = hook_client()?;
    for name in commands::NAMES {
        let link = tools.join(name);
        if std::fs::read_link(&link).ok().as_ref() != Some(&client) {
            let beside = tools.join(format!(".{name}.new"));
            std::fs::remove_file(&beside).ok();
            std::os::unix::fs::symlink(&client, &beside)?;
            std::fs::rename(&beside, &link)?;
        }
    }
    Ok(())
}

/// A service of the system that runs here, begun at once.
async fn install(data: PathBuf) -> Result<ExitCode> {
    if !systemd::is_running_system() {
        bail!(
            "systemd does not run here, or this is not root: pintle-agent machine --data DIR runs without it"
        );
    }
    hook_client()?;
    let data = data.canonicalize().with_context(|| format!("cannot enter {}", data.display()))?;
    // 1. An earlier machine's agent has removed its folder. 2. A service is installed for the next machine. 3. The agent
    // removes its own service, which is that one.
    systemd::halt().await?;
    systemd::install(Path::new("/"), agent::program::path(), &data)?;
    systemd::begin().await?;
    Ok(ExitCode::SUCCESS)
}

/// What the service of a machine does whose retirement a reboot cut off.
async fn uninstall(data: PathBuf) -> Result<ExitCode> {
    uninstall::go_on(&data).await?;
    Ok(ExitCode::SUCCESS)
}

/// A machine of a person's own, from now on: as a service where systemd runs.
async fn enrol([controller, server_name, model, machine, name]: [String; 5]) -> Result<ExitCode> {
    hook_client()?;
    let mut read = String::new();
    std::io::Read::read_to_string(&mut std::io::stdin(), &mut read)?;
    let data = Path::new(DATA);
    let invitation = enrolment::Invitation { controller, server_name, model, machine, name, read };
    enrolment::enrol(data, invitation).await?;
    println!("this host is a machine now; its folder is {DATA}");
    if systemd::is_running_system() {
        println!("hooks may reboot this host (juju-reboot)");
        return install(data.to_path_buf()).await;
    }
    println!(
        "systemd does not run here, or this is not root: keep this running: pintle-agent machine --data {DATA}\n\
         a hook that asks for a reboot (juju-reboot) does not reboot this host: its agents only begin a new boot"
    );
    Ok(ExitCode::SUCCESS)
}

async fn machine(dir: PathBuf, services: ServiceManager, level: Level) -> Result<ExitCode> {
    let dir = dir.canonicalize().with_context(|| format!("cannot enter {}", dir.display()))?;
    // none of its units' agents would come up; one that ends starts none
    if !uninstall::is_dead(&dir) {
        hook_client()?;
    }
    let holder = format!("pid {}", std::process::id());
    let _lock = match Lock::take(&dir.join(uninstall::LOCK), &holder)? {
        Ok(lock) => lock,
        Err(held) => {
            eprintln!("ERROR another machine agent holds {}: {}", dir.display(), held.0);
            return Ok(ExitCode::from(EXIT_COPY));
        }
    };
    umask(Mode::from_bits_truncate(0o077));
    let config = Config::read(&dir)?;
    Process::this().write(&dir.join("machine.pid"))?;
    let deployer = Deployer::new(dir.clone(), config.clone(), services);
    let client = config.client()?;
    let machiner = || {
        let clock = HostClock::new(&dir.join(reboot::BOOT_FILE));
        Machiner::new(client.clone(), Tended::new(deployer.clone()), clock)
    };
    sd_notify::send(NotifyState::Ready);
    // also for one that is dead: without their template its units' services cannot be stopped after a reboot
    if services == ServiceManager::Systemd {
        systemd::prepare(&dir).await?;
    }
    if !uninstall::is_dead(&dir) {
        deployer.sweep();
        reboot::conclude(&dir, &deployer).await?;
        let (machiner, mut asked) = (machiner(), signal(SignalKind::terminate())?);
        tokio::select! {
            machine_agent::End::Dead = machiner.run().instrument(tracing::info_span!("machine", name = config.name)) => {}
            never = reboot::execute(&dir, &deployer, services) => match never? {},
            _ = asked.recv() => {
                sd_notify::send(NotifyState::Stopping);
                return Ok(ExitCode::from(EXIT_ASKED));
            }
            never = sd_notify::send_watchdog() => match never {},
            never = follow_log_level(&dir, &level, &deployer) => match never {},
        }
        uninstall::note_dead(&dir)?;
    }
    tracing::info!("this machine is dead: its agent ends for good");
    let retired = async {
        machiner().leave().await?;
        deployer.sweep();
        if services == ServiceManager::Systemd { uninstall::uninstall(&dir).await } else { Ok(()) }
    };
    tokio::select! {
        retired = retired => retired?,
        never = sd_notify::send_watchdog() => match never {},
    }
    Ok(ExitCode::SUCCESS)
}

/// A person's decision about a unit whose files were lost: it begins anew.
async fn start_fresh(dir: PathBuf) -> Result<ExitCode> {
    let (folder, _lock) = enter(dir)?.map_err(|held| anyhow!("{held}; stop it first"))?;
    let config = Config::read(folder.root())?;
    let mut local = journal::peek(&folder).await?.context("there is no memory that can be read")?;
    if !local.lost {
        bail!("{} has not lost its state: nothing to decide", config.name);
    }
    local.lost = false;
    Journal::begin(folder, 0, &local, true).await.map_err(|failed| anyhow!("{failed}"))?;
    println!("{} begins anew when its agent starts", config.name);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path) -> Config {
        let config = Config {
            kind: config::Kind::Unit,
            uuid: state::terms::names::Uuid(1),
            name: "web/0".into(),
            model: state::terms::names::Uuid(2),
            controllers: vec!["127.0.0.1:1".into()],
            server_name: String::new(),
            ca: String::new(),
            token: String::new(),
            machine: "0".into(),
        };
        write_atomic_unsynced(&folder.join(config::FILE), config.text().as_bytes()).unwrap();
        config
    }

    async fn returns(folder: &Path, known: &Config) -> bool {
        let level = LEVEL.get_or_init(logging::start);
        let mut told = signal(SignalKind::hangup()).unwrap();
        let folder = Folder::new(folder.into());
        let changes = until_config_changes(&folder, known, level, &mut told);
        tokio::time::timeout(file_watch::POLL * 2, changes).await.is_ok()
    }

    static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();

    #[tokio::test(start_paused = true)]
    async fn a_configuration_that_changes_or_goes_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let known = written(dir.path());
        assert!(!returns(dir.path(), &known).await);
        assert!(returns(dir.path(), &Config { token: "an older one".into(), ..known.clone() }).await);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(returns(&path, &known).await);
    }
}
