//! The end of a machine that is Dead (spec E.5): its agent takes away what it brought, and refuses to run again.
//!
//! 1. The folder gets the file `dead`. From here on the agent does nothing else, however often it is started.
//! 2. Unit agents are ended, should any be left, and their folders removed.
//! 3. The controller is told that nothing is left; of a machine that a person brought the record goes with that.
//! 4. A service: what is mounted in the folder is unmounted, the folder emptied but for `dead` and `agent.yaml`, the
//!    folder removed, and the unit files last: without its folder the service does nothing.
//!
//! A crash between any two of these is followed by another start, which goes on from the file.

use crate::deployer::Deployer;
use crate::folder;
use crate::service::{Services, systemd};
use anyhow::{Context, Result};
use api::error::ErrorCode;
use api::machine::MachineApi;
use std::fs;
use std::path::Path;
use std::time::Duration;

const DEAD: &str = "dead";
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The machine of this folder is Dead: nothing is to be run for it.
pub fn is_dead(data: &Path) -> bool {
    data.join(DEAD).exists()
}

/// Step 1.
pub fn note_dead(data: &Path) -> Result<()> {
    folder::replace(&data.join(DEAD), b"this machine was removed: its agent does not run again\n")
        .with_context(|| data.display().to_string())
}

/// Steps 2 to 4. A child process leaves its folder to the provider that made it.
pub async fn retire(
    data: &Path,
    deployer: &Deployer,
    services: Services,
    api: &impl MachineApi,
) -> Result<()> {
    for folder in deployer.deployed().values() {
        deployer.stop(folder).await?;
        deployer.forget(folder)?;
    }
    deployer.sweep();
    while let Err(error) = api.machine_gone().await {
        // its record, and its token with it, went before
        if matches!(error.code, ErrorCode::Unauthorised | ErrorCode::NotFound | ErrorCode::Removed) {
            break;
        }
        tracing::warn!("{}", error.message);
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    if services == Services::Systemd {
        empty(data)?;
        // as long as the service is there, a crash is followed by another start; without its folder it does nothing
        fs::remove_dir_all(data)?;
        systemd::uninstall().await?;
    }
    Ok(())
}

fn empty(data: &Path) -> Result<()> {
    // nobody's files beyond a mount are removed
    for place in systemd::mounts_in(data) {
        nix::mount::umount2(&place, nix::mount::MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", place.display()))?;
    }
    let needed = |entry: &fs::DirEntry| entry.file_name() == DEAD || entry.file_name() == crate::config::FILE;
    for entry in fs::read_dir(data)?.flatten().filter(|entry| !needed(entry)) {
        let path = entry.path();
        let removed = match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.with_context(|| path.display().to_string())?;
    }
    Ok(())
}
