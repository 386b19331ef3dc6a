//! The reboot that a hook requested (`juju-reboot`, spec A.10).
//!
//! A unit agent writes the request, with the identity of the boot that is to end, into the machine's folder
//! (`reboot_request`).
//! The machine agent executes it once no hook runs:
//!
//! 1. It takes the hook locks of the machine, so that no hook starts any more; a failed attempt releases them.
//! 2. Under systemd it reboots the host.
//! 3. Without systemd (a machine of the provider `local`, or a manually provisioned one that does not use systemd) it must not
//!    reboot the host: it stores a new boot identity for the machine and stops the unit agents, which are
//!    started again in the new boot.
//!
//! A request that names an earlier boot is complete and is removed. If a step is interrupted, the next start of the machine
//! agent resumes; if one fails, the next attempt.

use crate::clock::{HostClock, kernel_boot_id, random_uuid};
use crate::deployer::Deployer;
use crate::ports::Clock;
use crate::reboot_request::{self, BOOT_FILE, requested_boot};
use crate::run_lock_files::{self, HOOK_LOCK};
use crate::service::{self, Supervision};
use anyhow::Result;
use host::file::write_atomic;
use host::lock::Lock;
use host::program::{self, HostProgram};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The interval between two polls of the request and of the hook lock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The interval between two attempts to reboot a host that refuses.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Finishes a reboot after the boot has changed: stops unit agents that remain from the earlier boot, and removes the
/// request. Nothing to do if no reboot is requested, or the boot has not ended.
///
/// # Errors
/// If the request cannot be read or removed, or the folders of the units cannot be listed.
pub async fn complete(machine: &Path, deployer: &Deployer) -> Result<()> {
    let Some(boot) = requested_boot(machine)? else { return Ok(()) };
    if boot == this_boot(machine) {
        return Ok(());
    }
    for claim in deployer.claims()? {
        service::children::stop(&claim.folder).await;
    }
    Ok(reboot_request::remove(machine)?)
}

/// Ends this boot whenever it is requested. A failure is logged and tried again, because the machine agent has other
/// duties.
pub async fn execute(machine: &Path, deployer: &Deployer, services: Supervision) -> Infallible {
    let mut logged = String::new();
    loop {
        match reboot_when_requested(machine, deployer, services).await {
            Ok(()) => logged.clear(),
            Err(error) => {
                let text = format!("cannot reboot the machine, as a hook requested: {error:#}; retrying");
                if logged != text {
                    tracing::error!("{text}");
                    logged = text;
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// Completes the reboot of an earlier attempt that has failed after its boot had ended; waits for a request, and ends this
/// boot.
async fn reboot_when_requested(machine: &Path, deployer: &Deployer, services: Supervision) -> Result<()> {
    complete(machine, deployer).await?;
    while requested_boot(machine)? != Some(this_boot(machine)) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    // hooks and actions that run in parallel hold the lock of their own unit only, and others that of their execution group
    let mut held = BTreeMap::new();
    loop {
        // an action creates the lock of its group, and may do so while this waits for another lock
        let folders = deployer.claims()?.into_iter().map(|claim| claim.folder.file(HOOK_LOCK));
        let groups = run_lock_files::group_files(machine)?;
        let locks = [machine.join(HOOK_LOCK)].into_iter().chain(folders).chain(groups);
        let wanted: Vec<PathBuf> = locks.filter(|lock| !held.contains_key(lock)).collect();
        if wanted.is_empty() {
            break;
        }
        for lock in wanted {
            let taken = acquire_lock(&lock).await?;
            held.insert(lock, taken);
        }
    }
    let action = match services {
        Supervision::Systemd => "rebooting the host",
        Supervision::Children => "restarting the agents with a new boot identity, without rebooting the host",
    };
    tracing::info!("a hook requested a reboot: {action}");
    if services == Supervision::Systemd {
        HostProgram::new("systemctl", ["reboot"], program::QUICK).run().await?;
        return future::pending().await;
    }
    let next = format!("{}-{}", kernel_boot_id(), random_uuid());
    write_atomic(&machine.join(BOOT_FILE), next.as_bytes())?;
    complete(machine, deployer).await
}

async fn acquire_lock(lock: &Path) -> Result<Lock> {
    loop {
        match Lock::take(lock, "reboot")? {
            Ok(lock) => return Ok(lock),
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

fn this_boot(machine: &Path) -> String {
    HostClock::new(&machine.join(BOOT_FILE)).boot()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{AgentConfig, AgentKind};
    use state::terms::names::Uuid;

    fn deployer(machine: &Path) -> Deployer {
        let config = AgentConfig {
            kind: AgentKind::Machine,
            uuid: Uuid(1),
            name: "0".to_owned(),
            model: Uuid(2),
            controllers: vec!["127.0.0.1:1".to_owned()],
            server_name: "controller".to_owned(),
            ca: String::new(),
            token: "t".to_owned(),
            machine: String::new(),
        };
        Deployer::new(machine.to_path_buf(), config, Supervision::Children)
    }

    /// 1. A reboot waits for the hook of a unit. 2. The first action of a group begins. 3. The hook ends.
    #[tokio::test(start_paused = true)]
    async fn a_reboot_waits_for_an_action_that_begins_while_it_waits_for_a_hook() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = folder.path();
        let deployer = deployer(machine);
        let hold = |name: &str| Lock::take(&machine.join(name), "test").expect("opened").expect("free");
        let hook = hold(HOOK_LOCK);
        reboot_request::request(machine, &this_boot(machine)).expect("written");
        let mut attempts = std::pin::pin!(execute(machine, &deployer, Supervision::Children));
        let mut waits = async || tokio::time::timeout(Duration::from_secs(60), &mut attempts).await;
        assert!(waits().await.is_err() && !machine.join(BOOT_FILE).exists(), "a hook runs");
        let action = hold("hook-copies.lock");
        drop(hook);
        assert!(waits().await.is_err() && !machine.join(BOOT_FILE).exists(), "an action runs");
        drop(action);
        assert!(waits().await.is_err() && machine.join(BOOT_FILE).exists(), "it has other duties");
    }

    /// 1. The id of the new boot is stored. 2. The attempt fails before the request is removed. 3. The request names an
    ///    earlier boot from then on.
    #[tokio::test(start_paused = true)]
    async fn the_next_attempt_completes_a_reboot_whose_boot_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        write_atomic(&folder.path().join(BOOT_FILE), b"next").expect("written");
        reboot_request::request(folder.path(), "earlier").expect("written");
        let deployer = deployer(folder.path());
        let attempts = execute(folder.path(), &deployer, Supervision::Children);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), attempts).await.is_err(),
            "it has other duties"
        );
        assert_eq!(reboot_request::requested_ms(folder.path()), None, "it is complete");
    }
}
