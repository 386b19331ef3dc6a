//! Uninstalls the agent of a machine that is Dead (spec E.5). The agent never runs again on this machine.
//!
//! 1. The file `dead` is written into the folder. From here on the agent does nothing else, however often it is
//!    started.
//! 2. The agents and hooks of all units are stopped, in every folder below `agents/` and `quarantine/`, whether or not
//!    its unit can be determined.
//! 3. The ssh keys of the model are removed from `authorized_keys`. All storage is released: what is mounted outside of
//!    the folder, and the block devices. Services of charms may still use it, so a mount that is in use is detached.
//! 4. The folders of the units are deleted (steps 2 to 5 are `MachineAgent::uninstall_units`).
//! 5. The agent reports to the controller that it is uninstalled. For a manually provisioned machine the
//!    controller then removes the record of the machine.
//! 6. An agent that the supervisor started leaves its folder to the provider that created it. The service of any other
//!    agent is replaced by one that only performs this step, at each boot; then the agent unmounts what is mounted in the
//!    folder, deletes everything but `agent.yaml`, `dead` and the lock, deletes these in this order, then the folder, and
//!    last the systemd unit files. A folder that is a mount point itself is emptied and stays.
//!
//! After a crash between any two steps the next start begins again with step 2, because of the file `dead`, or resumes
//! step 6, because of the replaced service.

use crate::juju_paths;
use crate::service::{systemd, unit_files};
use anyhow::{Context, Result, bail};
use api::AgentConfig;
use api::machine_folder::MACHINE_LOCK;
use host::file::{exists, ignore_not_found, sync_folder, write_atomic};
use host::lock::Lock;
use host::mounts::mount_points;
use host::tree;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file that marks the folder of a Dead machine.
const DEAD: &str = "dead";

/// Whether the machine of this folder is Dead, so that nothing may run for it.
///
/// # Errors
/// If this cannot be determined.
pub fn is_dead(data: &Path) -> io::Result<bool> {
    exists(&data.join(DEAD))
}

/// Step 1: marks the folder.
///
/// # Errors
/// If the mark cannot be written.
pub fn mark_dead(data: &Path) -> Result<()> {
    write_atomic(&data.join(DEAD), b"This machine was removed. Its agent does not run again.\n")
        .with_context(|| format!("cannot mark {} as the folder of a removed machine", data.display()))
}

/// Step 6, for an agent that is a systemd service.
///
/// # Errors
/// If a file cannot be deleted, or systemd refuses.
pub async fn uninstall(data: &Path) -> Result<()> {
    unit_files::replace_with_removal(Path::new("/"), crate::installed_programs::agent_program(), data)?;
    juju_paths::withdraw(data)?;
    remove(data)?;
    systemd::uninstall().await
}

/// Resumes step 6 in the replaced service, after the host has rebooted in the middle of it.
///
/// # Errors
/// If the machine was not being uninstalled, or an agent runs in the folder: nothing is deleted then. Else as
/// [`uninstall`].
pub async fn resume(data: &Path) -> Result<()> {
    resume_if(data, unit_files::is_removal(Path::new("/"), data))?;
    systemd::uninstall().await
}

/// Deletes the folder if `is_removal`, which is whether the service was replaced. The disk of the folder is mounted
/// (`RequiresMountsFor` of the service), so that an absent folder was deleted.
fn resume_if(data: &Path, is_removal: bool) -> Result<()> {
    if !is_removal {
        bail!("cannot uninstall {}: its removal was not started", data.display());
    }
    if exists(&data.join(AgentConfig::FILE))? && !is_dead(data)? {
        bail!("cannot uninstall {}: its machine was not removed", data.display());
    }
    match take_lock(data)? {
        Some(_lock) => {
            juju_paths::withdraw(data)?;
            remove(data)
        }
        None => Ok(()),
    }
}

/// Takes the machine agent's lock. None if there is no folder.
fn take_lock(data: &Path) -> Result<Option<Lock>> {
    if !exists(data)? {
        return Ok(None);
    }
    match Lock::take(&data.join(MACHINE_LOCK), &format!("pid {}", std::process::id()))? {
        Ok(lock) => Ok(Some(lock)),
        Err(held) => bail!(
            "cannot use {}: the agent of its earlier machine has not exited yet ({})\n\
             hint: repeat the command in a few seconds",
            data.display(),
            held.0
        ),
    }
}

/// Deletes what a Dead machine has left in its folder, so that another machine can be enrolled in it. Returns the machine
/// agent's lock: while it is held, no agent starts there. Returns None if the folder is absent, or belongs to a machine
/// that is not Dead. The lock prevents this:
///
/// 1. An agent deletes its files, `agent.yaml` among them.
/// 2. The operator enrols another machine in the same folder.
/// 3. The agent deletes the files of that machine.
///
/// # Errors
/// If an agent runs in the folder, a file cannot be deleted, or `data` is a link: no machine is enrolled in the folder that
/// it leads to, so nothing may be deleted there.
pub fn clear_dead(data: &Path) -> Result<Option<Lock>> {
    if data.is_symlink() {
        bail!(
            "cannot use {}: it is a link\nhint: replace it by a folder, or by a mount of the other folder (mount --bind)",
            data.display()
        );
    }
    if exists(&data.join(AgentConfig::FILE))? && !is_dead(data)? {
        return Ok(None);
    }
    let lock = take_lock(data)?;
    clear(data)?;
    Ok(lock)
}

fn remove(data: &Path) -> Result<()> {
    clear(data)?;
    ignore_not_found(fs::remove_file(data.join(MACHINE_LOCK)))?;
    // only if the folder is empty: another machine may have been enrolled in it since
    let removed = match mounts()?.contains(&data.canonicalize()?) {
        // the mount point belongs to the host, so it is not removed
        true if fs::read_dir(data)?.next().is_none() => Ok(()),
        true => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        false => fs::remove_dir(data),
    };
    removed.with_context(|| format!("cannot remove {}", data.display()))
}

fn mounts() -> Result<Vec<PathBuf>> {
    mount_points().context("cannot read the mount points")
}

/// Deletes everything but the lock, if the machine is Dead.
fn clear(data: &Path) -> Result<()> {
    if is_dead(data)? {
        empty(data)?;
        remove_identity_last(data, |path| ignore_not_found(fs::remove_file(path)).map(drop))?;
    }
    Ok(())
}

/// Deletes `agent.yaml` before `dead`: with `agent.yaml` alone the agent would run again.
fn remove_identity_last(data: &Path, mut remove: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for name in [AgentConfig::FILE, DEAD] {
        remove(&data.join(name))?;
        sync_folder(data)?;
    }
    Ok(())
}

fn empty(data: &Path) -> Result<()> {
    // Files of other mounted file systems must not be deleted. The list of mounts has resolved paths.
    let data = &data.canonicalize().with_context(|| format!("cannot open the folder {}", data.display()))?;
    for mount in mounts()?.into_iter().rev().filter(|mount| mount.starts_with(data) && mount != data) {
        nix::mount::umount2(&mount, nix::mount::MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", mount.display()))?;
    }
    let is_kept = |entry: &fs::DirEntry| {
        [DEAD, AgentConfig::FILE, MACHINE_LOCK].iter().any(|name| entry.file_name() == *name)
    };
    for entry in fs::read_dir(data)?.flatten().filter(|entry| !is_kept(entry)) {
        let path = entry.path();
        let removed = match entry.file_type()?.is_dir() {
            true => tree::remove(&path),
            false => fs::remove_file(&path),
        };
        removed.with_context(|| format!("cannot delete {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::uninstall::*;
    use api::machine_folder::MACHINE_PID;

    fn dead_machine() -> tempfile::TempDir {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("pintle");
        fs::create_dir_all(data.join("tools/unit-web-0")).unwrap();
        for name in [AgentConfig::FILE, MACHINE_LOCK, MACHINE_PID] {
            fs::write(data.join(name), "").unwrap();
        }
        mark_dead(&data).unwrap();
        parent
    }

    #[test]
    fn an_interrupted_removal_never_leaves_a_folder_that_an_agent_would_run_in() {
        for cut in 0..=2 {
            let parent = dead_machine();
            let data = parent.path().join("pintle");
            empty(&data).unwrap();
            let mut removed = 0;
            let cut_off = |path: &Path| {
                if removed == cut {
                    return Err(io::Error::other("cut off"));
                }
                removed += 1;
                fs::remove_file(path)
            };
            assert_eq!(remove_identity_last(&data, cut_off).is_ok(), cut == 2);
            assert!(is_dead(&data).unwrap() || !data.join(AgentConfig::FILE).exists(), "cut off after {cut}");
            resume_if(&data, true).unwrap();
            assert!(!data.exists(), "cut off after {cut}");
        }
    }

    #[test]
    fn a_removal_resumes_only_if_it_was_started() {
        let parent = dead_machine();
        let data = parent.path().join("pintle");
        resume_if(&data, false).unwrap_err();
        resume_if(&parent.path().join("none"), false).unwrap_err();
        resume_if(&parent.path().join("none"), true).unwrap();
        fs::remove_file(data.join(DEAD)).unwrap();
        resume_if(&data, true).unwrap_err();
        assert!(data.join(MACHINE_PID).exists());
    }

    #[test]
    fn removing_a_dead_machine_keeps_the_files_of_another_machine() {
        let parent = dead_machine();
        let data = parent.path().join("pintle");
        clear(&data).unwrap();
        fs::write(data.join("enrolling.yaml"), "another machine's").unwrap();
        remove(&data).unwrap_err();
        resume_if(&data, true).unwrap_err();
        assert!(data.join("enrolling.yaml").exists());
    }

    #[test]
    fn no_machine_is_enrolled_while_the_earlier_agent_is_still_ending() {
        let parent = dead_machine();
        let data = parent.path().join("pintle");
        let _agent = take_lock(&data).unwrap();
        let error = clear_dead(&data).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        resume_if(&data, true).unwrap_err();
        assert!(data.join(MACHINE_PID).exists());
    }
}
