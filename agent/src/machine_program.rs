//! The process of a machine agent: it locks the machine's folder, and runs [`MachineAgent`] together with the reboots
//! that hooks request, until the machine is Dead. It also contains the commands that enrol a machine and install its
//! agent.
//!
//! A machine agent that is started again after its machine is Dead only resumes the uninstallation.
//!
//! Called by `pintle-agent machine`, `install`, `enrol` and `uninstall`.

use crate::clock::HostClock;
use crate::config;
use crate::deployer::Deployer;
use crate::enrolment::EnrolmentRequest;
use crate::exit_code;
use crate::file_watch::{self, FileWatch};
use crate::installed_programs::{self, require_hook_program};
use crate::juju_paths;
use crate::machine_agent::MachineAgent;
use crate::sd_notify::{self, NotifyState};
use crate::service::{self, Supervision, systemd, unit_files};
use crate::unit_supervisor::UnitSupervisor;
use crate::{enrolment, reboot, reboot_request, socket_dir, uninstall};
use anyhow::{Context, Result, bail};
use api::AgentConfig;
use api::machine_folder::{DATA_DIR, MACHINE_LOCK, MACHINE_PID, MACHINES_DIR};
use host::lock::Lock;
use host::logging::{LEVEL_FILE, LogFilter};
use host::open_folder::OpenFolder;
use host::process::Process;
use nix::sys::stat::{Mode, umask};
use state::terms::names::Uuid;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument;

/// Why the agent of this host's machine cannot be a service.
const NO_SYSTEM_SERVICES: &str = "systemd does not run on this host, or this user is not root";

/// Applies the machine's log level whenever it changes, in this process and in the unit agents.
async fn follow_log_level(dir: &Path, log_filter: &LogFilter, deployer: &Deployer) -> Infallible {
    let watch = FileWatch::new(dir, LEVEL_FILE);
    loop {
        if log_filter.read(&dir.join(LEVEL_FILE)) {
            // the unit agents also poll the file
            let claims = deployer.claims().unwrap_or_default();
            claims.iter().for_each(|claim| service::notify_of_changed_files(&claim.folder));
        }
        watch.changed().await;
    }
}

/// Completes when the machine's folder is not at its path any more: what the agent does there would be in another folder.
async fn until_lost(folder: &OpenFolder) {
    while folder.is_in_place() {
        tokio::time::sleep(file_watch::POLL).await;
    }
}

/// Installs and starts the machine agent as a service of this host.
///
/// # Errors
/// If systemd does not run, a program is missing, or systemd refuses the service.
pub async fn install(data: PathBuf) -> Result<ExitCode> {
    if !systemd::can_be_used() {
        bail!(
            "cannot install a service: {NO_SYSTEM_SERVICES}\n\
             hint: to run without systemd: pintle-agent machine --data DIR"
        );
    }
    require_hook_program()?;
    let data = data.canonicalize().with_context(|| format!("cannot open the folder {}", data.display()))?;
    // An earlier machine agent is stopped first, because otherwise:
    // 1. It has deleted its folder.
    // 2. A service is installed for the next machine.
    // 3. It deletes its own service, which is now that of the next machine.
    systemd::stop_machine().await?;
    unit_files::install(Path::new("/"), installed_programs::agent_program(), &data)?;
    systemd::start_installed().await?;
    Ok(ExitCode::SUCCESS)
}

/// Resumes the uninstallation of a machine that a reboot interrupted.
///
/// # Errors
/// If a file cannot be deleted.
pub async fn resume_uninstall(data: PathBuf) -> Result<ExitCode> {
    uninstall::resume(&data).await?;
    Ok(ExitCode::SUCCESS)
}

/// Enrols this host as a manually provisioned machine, and installs the agent as a service if systemd runs.
///
/// # Errors
/// If the enrolment is refused, the controller does not answer, or the folder belongs to another machine.
pub async fn enrol(request: EnrolmentRequest) -> Result<ExitCode> {
    require_hook_program()?;
    let data = Path::new(DATA_DIR);
    enrolment::enrol(data, request).await?;
    println!("Enrolled this host as a machine. Its folder is {DATA_DIR}.");
    if systemd::can_be_used() {
        println!("Hooks can reboot this host (juju-reboot).");
        return install(data.to_path_buf()).await;
    }
    println!(
        "{NO_SYSTEM_SERVICES}. Keep this command running:\n    \
         pintle-agent machine --data {DATA_DIR}\n\
         A hook that requests a reboot (juju-reboot) does not reboot this host; it only restarts the agents."
    );
    Ok(ExitCode::SUCCESS)
}

/// The machine whose folder this is, if the folder is named after a machine: those in the machines folder of a data folder
/// are. An enrolled machine has a folder of any name; the supervisor does not write its configuration again.
fn machine_of_folder(dir: &Path) -> Option<Uuid> {
    let name = dir.file_name()?.to_str()?;
    let is_of_data_folder = dir.parent()?.file_name()? == MACHINES_DIR;
    name.parse().ok().filter(|_| is_of_data_folder)
}

/// Runs the agent of the machine in the folder `dir` until it must end; uninstalls it when the machine is Dead.
///
/// # Errors
/// If the agent cannot be started, or it cannot be uninstalled.
pub async fn run(dir: PathBuf, services: Supervision, log_filter: LogFilter) -> Result<ExitCode> {
    let named = machine_of_folder(&dir);
    let dir = dir.canonicalize().with_context(|| format!("cannot open the folder {}", dir.display()))?;
    // without pintle-hook no unit agent would start; the agent of a Dead machine starts none
    if !uninstall::is_dead(&dir)? {
        require_hook_program()?;
    }
    let holder = format!("pid {}", std::process::id());
    let lock = dir.join(MACHINE_LOCK);
    let taken = Lock::take(&lock, &holder).with_context(|| format!("cannot lock {}", lock.display()));
    let _lock = match taken? {
        Ok(lock) => lock,
        Err(held) => {
            let (dir, holder) = (dir.display(), held.0);
            eprintln!("ERROR cannot use {dir}: another machine agent holds its lock: {holder}");
            return Ok(ExitCode::from(exit_code::NOT_OWNER));
        }
    };
    let opened = OpenFolder::open(&dir)?;
    umask(Mode::from_bits_truncate(0o077));
    let config = config::read(&dir)?;
    if named.is_some_and(|machine| machine != config.uuid) {
        let (file, name) = (dir.join(AgentConfig::FILE), &config.name);
        bail!(
            "cannot use {0}: it is the file of another machine ({name})\nhint: delete it, it is written again: rm {0}",
            file.display()
        );
    }
    let pid_file = dir.join(MACHINE_PID);
    Process::current().write(&pid_file).with_context(|| format!("cannot write {}", pid_file.display()))?;
    juju_paths::provide(&dir, &config.name)?;
    let deployer = Deployer::new(dir.clone(), config.clone(), services);
    let client = config.client()?;
    // One for the whole process: two supervisors would delete the same folders at the same time.
    let clock = HostClock::new(&dir.join(reboot_request::BOOT_FILE));
    let machine_agent = MachineAgent::new(client, UnitSupervisor::new(deployer.clone()), clock);
    sd_notify::send(NotifyState::Ready);
    // also for a Dead machine: after a reboot, the services of its units cannot be stopped without their
    // template
    if services == Supervision::Systemd {
        systemd::prepare(&dir).await?;
    }
    if !uninstall::is_dead(&dir)? {
        match deployer.claims() {
            Ok(own) => socket_dir::remove_abandoned(own.iter().map(|claim| &claim.folder)),
            Err(error) => tracing::warn!("cannot list the units, socket folders are not examined: {error:#}"),
        }
        reboot::complete(&dir, &deployer).await?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            () = machine_agent.run().instrument(tracing::info_span!("machine", name = config.name)) => {}
            never = reboot::execute(&dir, &deployer, services) => match never {},
            _ = terminate.recv() => {
                sd_notify::send(NotifyState::Stopping);
                return Ok(ExitCode::from(exit_code::RESTART));
            }
            never = sd_notify::send_watchdog() => match never {},
            never = follow_log_level(&dir, &log_filter, &deployer) => match never {},
            () = until_lost(&opened) => {
                tracing::error!("{} was moved or deleted: this agent ends", dir.display());
                return Ok(ExitCode::from(exit_code::RESTART));
            }
        }
        uninstall::mark_dead(&dir)?;
    }
    tracing::info!("this machine is Dead: uninstalling its agent");
    let uninstalled = async {
        machine_agent.uninstall_units().await?;
        if services == Supervision::Systemd { uninstall::uninstall(&dir).await } else { Ok(()) }
    };
    tokio::select! {
        result = uninstalled => result?,
        never = sd_notify::send_watchdog() => match never {},
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_its_machine_only_in_a_data_folder() {
        let name = Uuid(5).to_string();
        let machine_of = |above: &str| machine_of_folder(&Path::new(above).join(&name));
        assert_eq!(machine_of("/data/machines"), Some(Uuid(5)));
        assert_eq!(machine_of("/srv/pintle"), None, "an enrolled machine");
        assert_eq!(machine_of(""), None);
        assert_eq!(machine_of_folder(Path::new("/data/machines/m")), None);
    }
}
