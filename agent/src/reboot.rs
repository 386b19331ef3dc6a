//! A reboot that a hook asked for (spec A.10), from a unit's agent to its machine's: the file `reboot` in the machine's
//! folder names the boot that is to end. In another boot it means nothing: it has been done.

use crate::clock::{RealClock, fresh_uuid, kernel_boot};
use crate::deployer::Deployer;
use crate::folder::{self, Lock};
use crate::ports::Clock;
use crate::service::{Services, children, systemd};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::time::Duration;

const ASKED: &str = "reboot";
pub const BOOT: &str = "boot";
/// How often the machine agent looks for the file, and tries for the hook lock.
const LOOK: Duration = Duration::from_millis(200);

fn boot(machine: &Path) -> String {
    RealClock::new(&machine.join(BOOT)).boot()
}

/// Asks for the end of this boot.
pub fn ask(machine: &Path) -> Result<()> {
    Ok(folder::replace(&machine.join(ASKED), boot(machine).as_bytes())?)
}

/// This boot is to end.
pub fn is_asked(machine: &Path) -> bool {
    fs::read_to_string(machine.join(ASKED)).is_ok_and(|asked| asked == boot(machine))
}

/// Over when this boot is to end.
pub async fn asked(machine: &Path) {
    while !is_asked(machine) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Reboots the machine, under the hook lock: no hook is cut off that is not the one that asked. A machine that is a
/// folder of its host gets another boot identity, and its agents begin anew with it; the host is never touched.
pub async fn perform(machine: &Path, deployer: &Deployer, services: Services) -> Result<()> {
    let _lock = loop {
        if let Ok(lock) = Lock::take(&machine.join("hook.lock"), "the machine reboots")? {
            break lock;
        }
        tokio::time::sleep(LOOK).await;
    };
    tracing::info!("a hook asked for a reboot");
    match services {
        Services::Systemd => {
            systemd::reboot().await?;
            std::future::pending().await
        }
        Services::Children => {
            for folder in deployer.deployed().values() {
                children::end(folder).await;
            }
            let next = format!("{}-{}", kernel_boot(), fresh_uuid());
            Ok(folder::replace(&machine.join(BOOT), next.as_bytes())?)
        }
    }
}
