//! Detaches the block devices over the files of a machine.
//!
//! A loop device belongs to the kernel: it outlives the container in which it was attached, and keeps the machine's file
//! system. The machine agent detaches the devices of storage that is removed; this host detaches what is attached when a
//! machine stops, whoever attached it. Called by the `nspawn` provider, and by `down` for machines that are folders of this
//! host.

use crate::command_error::CommandError;
use crate::supervisor::host_programs;
use host::program;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Detaches the devices over files of the file system that is mounted at `root`, the root of a machine that does not run.
/// A file is found by its file system, because its path was one in the container, and may have changed since.
///
/// # Errors
/// If the devices cannot be listed, or one of them is in use; the others are detached.
pub(super) async fn detach(root: &Path) -> Result<(), CommandError> {
    let device = root
        .metadata()
        .map_err(|error| CommandError::new(format!("cannot read {}: {error}", root.display())))?
        .dev();
    let of_root = format!("{}:{}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    detach_if("BACK-MAJ:MIN", |number| number == of_root).await
}

/// Detaches the devices over files below a folder of this host. Does nothing on a host without loop devices.
///
/// # Errors
/// If the devices cannot be listed, or one of them is in use; the others are detached.
pub(crate) async fn detach_below(folder: &Path) -> Result<(), CommandError> {
    match folder.canonicalize() {
        Ok(folder) if Path::new("/dev/loop-control").exists() => {
            detach_if("BACK-FILE", |file| Path::new(file).starts_with(&folder)).await
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Detaches the devices for which `is_ours` holds of this column of `losetup`.
async fn detach_if(column: &str, is_ours: impl Fn(&str) -> bool) -> Result<(), CommandError> {
    let columns = format!("NAME,{column}");
    let list = ["--noheadings", "--output", &columns];
    let listed = host_programs::run("losetup", &list, program::QUICK).await?;
    let mut result = Ok(());
    for line in listed.lines() {
        if let Some((name, value)) = line.split_once(' ')
            && is_ours(value.trim())
            && let Err(error) = host_programs::run("losetup", &["--detach", name], program::QUICK).await
        {
            result = Err(error);
        }
    }
    result
}
