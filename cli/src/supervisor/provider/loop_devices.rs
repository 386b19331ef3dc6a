//! Detaches the block devices over the files of a machine.
//!
//! A loop device belongs to the kernel: it outlives the container in which it was attached, and keeps the machine's file
//! system. The machine agent detaches the devices of storage that is removed; this host detaches what is attached when a
//! machine stops. Called by the `nspawn` provider.

use super::machine_folder::folders;
use crate::command_error::CommandError;
use crate::supervisor::host_programs;
use api::machine_folder::{DATA_DIR, DEVICE_FILE, STORAGE_DIR};
use host::program;
use std::path::Path;

/// Detaches the devices over the files of storage below `root`, the root of a machine that does not run.
///
/// # Errors
/// If the storage cannot be listed, or a device is in use.
pub(super) async fn detach_below(root: &Path) -> Result<(), CommandError> {
    let storage = root.join(DATA_DIR.trim_start_matches('/')).join(STORAGE_DIR);
    if !has_no_links(&storage) {
        return Ok(());
    }
    let listed = folders(&storage)
        .map_err(|error| CommandError::new(format!("cannot list {}: {error}", storage.display())))?;
    for file in listed.iter().map(|folder| folder.join(DEVICE_FILE)).filter(|file| has_no_links(file)) {
        let file = file.display().to_string();
        let list = ["--noheadings", "--output", "NAME", "--associated", &file];
        let attached = host_programs::run("losetup", &list, program::QUICK).await?;
        for device in attached.split_whitespace() {
            host_programs::run("losetup", &["--detach", device], program::QUICK).await?;
        }
    }
    Ok(())
}

/// Whether a path exists without symbolic links. A link that was created in the machine could name a file of this host.
fn has_no_links(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|canonical| canonical == path)
}
