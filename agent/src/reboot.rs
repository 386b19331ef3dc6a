//! The end of a boot that a hook asked for (`juju-reboot`, spec A.10). A unit's agent leaves the request, which names
//! the boot that is to end, in the machine's folder; the machine's agent carries it out once no hook runs.
//!
//! First the request is written. The machine's hook lock is taken and kept: nothing begins any more. Then systemd
//! reboots the machine; where it does not keep the agents (a local machine, which is a folder of this host, or a person's
//! own without systemd) the host is none of ours to reboot: the machine gets another boot identity, and its unit agents
//! are ended, to be started again in the new boot. A request that names an earlier boot is done, and removed.
//! Cut off anywhere, the machine agent's next start goes on from there.

use crate::clock::{HostClock, fresh_uuid, kernel_boot};
use crate::deployer::Deployer;
use crate::ports::Clock;
use crate::service::{self, ServiceManager};
use anyhow::{Result, bail};
use host::file::{ignore_not_found, write_atomic, write_atomic_unsynced};
use host::lock::Lock;
use std::convert::Infallible;
use std::fs;
use std::future;
use std::path::Path;
use std::time::Duration;

/// The boot identity of a local machine that was rebooted.
pub const BOOT_FILE: &str = "boot";
const REQUEST: &str = "reboot";
/// Of a machine, and of a unit's folder: held while a hook runs.
pub const HOOK_LOCK: &str = "hook.lock";
/// Between two looks for a request, and for the hook lock.
const LOOK: Duration = Duration::from_millis(500);

/// Has this boot of the machine ended.
pub fn ask(machine: &Path, boot: &str) -> std::io::Result<()> {
    write_atomic_unsynced(&machine.join(REQUEST), boot.as_bytes())
}

fn asked(machine: &Path) -> Result<Option<String>> {
    Ok(ignore_not_found(fs::read_to_string(machine.join(REQUEST)))?)
}

/// What an earlier machine agent began and did not finish: units' agents may be left from an earlier boot.
pub async fn conclude(machine: &Path, deployer: &Deployer) -> Result<()> {
    let Some(boot) = asked(machine)? else { return Ok(()) };
    if boot == this_boot(machine) {
        return Ok(());
    }
    for folder in deployer.deployed().values() {
        service::children::end(folder).await;
    }
    Ok(fs::remove_file(machine.join(REQUEST))?)
}

/// Ends this boot when it is asked for, as often as it is asked for.
pub async fn execute(machine: &Path, deployer: &Deployer, services: ServiceManager) -> Result<Infallible> {
    loop {
        while asked(machine)? != Some(this_boot(machine)) {
            tokio::time::sleep(LOOK).await;
        }
        // hooks that run side by side hold the lock of their own folder only
        let folders = deployer.deployed().into_values().map(|folder| folder.file(HOOK_LOCK));
        let mut kept = Vec::new();
        for lock in [machine.join(HOOK_LOCK)].into_iter().chain(folders) {
            kept.push(taken(&lock).await?);
        }
        let what = match services {
            ServiceManager::Systemd => "this boot ends",
            ServiceManager::Children => "the host is not rebooted, its agents begin a new boot",
        };
        tracing::info!("a hook asked for a reboot: {what}");
        if services == ServiceManager::Systemd {
            let status = tokio::process::Command::new("systemctl").arg("reboot").status().await?;
            match status.success() {
                true => future::pending().await,
                false => bail!("systemctl reboot: {status}"),
            }
        }
        let next = format!("{}-{}", kernel_boot(), fresh_uuid());
        write_atomic(&machine.join(BOOT_FILE), next.as_bytes())?;
        conclude(machine, deployer).await?;
    }
}

async fn taken(lock: &Path) -> Result<Lock> {
    loop {
        match Lock::take(lock, "reboot")? {
            Ok(lock) => return Ok(lock),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

fn this_boot(machine: &Path) -> String {
    HostClock::new(&machine.join(BOOT_FILE)).boot()
}
