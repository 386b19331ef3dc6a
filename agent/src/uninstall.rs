//! The end of a machine that is Dead (spec E.5): its agent takes away what it brought, and refuses to run again.
//!
//! 1. The folder gets the file `dead`. From here on the agent does nothing else, however often it is started.
//! 2. Unit agents are ended, should any be left, and their folders removed (`Machiner::leave`).
//! 3. The controller is told that nothing is left; of a machine that a person brought the record goes with that (there
//!    too).
//! 4. A child process leaves its folder to the provider that made it. A service is turned into one that does just this
//!    step, at each boot; then it unmounts what is mounted in the folder, empties it but for `agent.yaml`, `dead` and
//!    the lock, removes those in this order and the folder, and the unit files last.
//!
//! A crash between any two of these is followed by another start, which goes on from the file, or from the service that
//! was made for it.

use crate::config::FILE;
use crate::service::systemd;
use anyhow::{Context, Result, bail};
use host::file::{ignore_not_found, sync_folder, write_atomic};
use host::lock::Lock;
use std::fs;
use std::io;
use std::path::Path;

const DEAD: &str = "dead";
/// Held by the machine's agent.
pub const LOCK: &str = "machine.lock";

/// The machine of this folder is Dead: nothing is to be run for it.
pub fn is_dead(data: &Path) -> bool {
    data.join(DEAD).exists()
}

/// Step 1.
pub fn note_dead(data: &Path) -> Result<()> {
    write_atomic(&data.join(DEAD), b"this machine was removed: its agent does not run again\n")
        .with_context(|| data.display().to_string())
}

/// Step 4.
pub async fn uninstall(data: &Path) -> Result<()> {
    systemd::replace_with_removal(Path::new("/"), crate::program::path(), data)?;
    remove(data)?;
    systemd::uninstall().await
}

/// The end of step 4, for the service that was made for it: this host may have rebooted in the middle.
pub async fn go_on(data: &Path) -> Result<()> {
    go_on_with(data, systemd::is_removal(Path::new("/"), data))?;
    systemd::uninstall().await
}

/// That nothing is left of a machine is no evidence that it died: a disk may not be mounted yet. What the service was
/// made into is.
fn go_on_with(data: &Path, is_removal: bool) -> Result<()> {
    if !is_removal {
        bail!("no retirement of {} was begun: its service is not taken away", data.display());
    }
    if data.join(FILE).exists() && !is_dead(data) {
        bail!("{} is the folder of a machine that was not removed", data.display());
    }
    match take_lock(data)? {
        Some(_lock) => remove(data),
        None => Ok(()),
    }
}

/// The lock of the machine's agent; none where there is no folder.
fn take_lock(data: &Path) -> Result<Option<Lock>> {
    if !data.exists() {
        return Ok(None);
    }
    match Lock::take(&data.join(LOCK), &format!("pid {}", std::process::id()))? {
        Ok(lock) => Ok(Some(lock)),
        Err(held) => bail!("the earlier machine's agent is still ending ({}): try again", held.0),
    }
}

/// Makes room for another machine in what one that died left of its folder; while the lock that is answered is held,
/// no agent begins there. None: there is nothing to make room in.
///
/// 1. An agent takes away what it brought, `agent.yaml` among it. 2. A person enrols another machine in its folder.
/// 3. The agent empties that folder.
pub fn clear_dead(data: &Path) -> Result<Option<Lock>> {
    if data.join(FILE).exists() && !is_dead(data) {
        return Ok(None);
    }
    let lock = take_lock(data)?;
    clear(data)?;
    Ok(lock)
}

fn remove(data: &Path) -> Result<()> {
    clear(data)?;
    ignore_not_found(fs::remove_file(data.join(LOCK)))?;
    // not with all that is in it: another machine may be enrolled in it since
    fs::remove_dir(data).with_context(|| format!("cannot remove {}", data.display()))
}

/// Whatever is left of one that died, all but the lock.
fn clear(data: &Path) -> Result<()> {
    if is_dead(data) {
        empty(data)?;
        last(data, |path| ignore_not_found(fs::remove_file(path)).map(drop))?;
    }
    Ok(())
}

/// Who the agent is goes before the word that it is dead: with the first alone it would live again.
fn last(data: &Path, mut remove: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for name in [FILE, DEAD] {
        remove(&data.join(name))?;
        sync_folder(data)?;
    }
    Ok(())
}

fn empty(data: &Path) -> Result<()> {
    // nobody's files beyond a mount are removed
    for place in systemd::mounts_in(data) {
        nix::mount::umount2(&place, nix::mount::MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", place.display()))?;
    }
    let needed = |entry: &fs::DirEntry| [DEAD, FILE, LOCK].iter().any(|name| entry.file_name() == *name);
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

#[cfg(test)]
mod tests {
    use crate::uninstall::*;

    fn dead_machine() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("pintle");
        fs::create_dir_all(data.join("tools/unit-web-0")).unwrap();
        for name in [FILE, LOCK, "machine.pid"] {
            fs::write(data.join(name), "").unwrap();
        }
        note_dead(&data).unwrap();
        place
    }

    #[test]
    fn wherever_a_removal_is_cut_off_what_is_left_is_no_living_machines() {
        for cut in 0..=2 {
            let place = dead_machine();
            let data = place.path().join("pintle");
            empty(&data).unwrap();
            let mut removed = 0;
            let cut_off = |path: &Path| {
                if removed == cut {
                    return Err(io::Error::other("cut off"));
                }
                removed += 1;
                fs::remove_file(path)
            };
            assert_eq!(last(&data, cut_off).is_ok(), cut == 2);
            assert!(is_dead(&data) || !data.join(FILE).exists(), "cut off after {cut}");
            go_on_with(&data, true).unwrap();
            assert!(!data.exists(), "cut off after {cut}");
        }
    }

    #[test]
    fn a_removal_goes_on_only_where_it_was_begun() {
        let place = dead_machine();
        let data = place.path().join("pintle");
        go_on_with(&data, false).unwrap_err();
        go_on_with(&place.path().join("none"), false).unwrap_err();
        go_on_with(&place.path().join("none"), true).unwrap();
        fs::remove_file(data.join(DEAD)).unwrap();
        go_on_with(&data, true).unwrap_err();
        assert!(data.join("machine.pid").exists());
    }

    #[test]
    fn another_machines_files_are_not_removed_with_those_of_a_dead_one() {
        let place = dead_machine();
        let data = place.path().join("pintle");
        clear(&data).unwrap();
        fs::write(data.join("enrolling.yaml"), "another machine's").unwrap();
        remove(&data).unwrap_err();
        go_on_with(&data, true).unwrap_err();
        assert!(data.join("enrolling.yaml").exists());
    }

    #[test]
    fn no_machine_is_enrolled_where_an_earlier_ones_agent_is_still_ending() {
        let place = dead_machine();
        let data = place.path().join("pintle");
        let _agent = take_lock(&data).unwrap();
        let error = clear_dead(&data).unwrap_err().to_string();
        assert!(error.contains("the earlier machine's agent is still ending"), "{error}");
        go_on_with(&data, true).unwrap_err();
        assert!(data.join("machine.pid").exists());
    }
}
