//! The end of a machine that is Dead (spec E.5): its agent takes away what it brought, and refuses to run again.
//!
//! 1. The folder gets the file `dead`. From here on the agent does nothing else, however often it is started.
//! 2. Unit agents are ended, should any be left, and their folders removed (`Machiner::leave`).
//! 3. The controller is told that nothing is left; of a machine that a person brought the record goes with that (there
//!    too).
//! 4. A child process leaves its folder to the provider that made it. A service unmounts what is mounted in the folder,
//!    empties it but for `dead` and `agent.yaml`, removes it, and the unit files last: without its folder the service
//!    does nothing.
//!
//! A crash between any two of these is followed by another start, which goes on from the file.

use crate::folder;
use crate::service::systemd;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const DEAD: &str = "dead";

/// The machine of this folder is Dead: nothing is to be run for it.
pub fn is_dead(data: &Path) -> bool {
    data.join(DEAD).exists()
}

/// Step 1.
pub fn note_dead(data: &Path) -> Result<()> {
    folder::replace(&data.join(DEAD), b"this machine was removed: its agent does not run again\n")
        .with_context(|| data.display().to_string())
}

/// Step 4.
pub async fn uninstall(data: &Path) -> Result<()> {
    empty(data)?;
    // as long as the service is there, a crash is followed by another start; without its folder it does nothing
    fs::remove_dir_all(data)?;
    systemd::uninstall().await
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
