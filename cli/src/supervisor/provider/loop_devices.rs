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
    let list = ["--noheadings", "--output", "NAME,BACK-MAJ:MIN"];
    let listed = host_programs::run("losetup", &list, program::QUICK).await?;
    let mut result = Ok(());
    for line in listed.lines() {
        let mut columns = line.split_whitespace();
        if let (Some(name), Some(number)) = (columns.next(), columns.next())
            && number == of_root
        {
            result = detach_device(name).await.and(result);
        }
    }
    result
}

/// Detaches the devices over files below a folder of this host.
///
/// # Errors
/// If one of them is in use; the others are detached.
pub(crate) async fn detach_below(folder: &Path) -> Result<(), CommandError> {
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let mut result = Ok(());
    for device in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file"));
        if file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(&folder)) {
            let name = format!("/dev/{}", device.file_name().to_string_lossy());
            result = detach_device(&name).await.and(result);
        }
    }
    result
}

async fn detach_device(name: &str) -> Result<(), CommandError> {
    host_programs::run("losetup", &["--detach", name], program::QUICK).await.map(drop)
}
