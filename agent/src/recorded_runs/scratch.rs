//! The folders in which a run is replayed: a copy of what a run needs of its unit, below the folder for temporary files.
//!
//! A replay deletes its folders when it ends. One that was killed cannot, so each replay first deletes what others have
//! left behind: folders of the same user whose lock no process holds and whose hook has ended. Folders that a person has
//! kept (`--keep`) have no lock and are never deleted. Called by `replay`.

use crate::folder::{UnitFolder, private_dir};
use crate::hook_process::{CHARM_FILE, is_running};
use crate::installed_programs::require_hook_program;
use anyhow::{Context, Result, bail};
use host::file::{create_private_folder, exists};
use host::lock::Lock;
use host::program::{self, HostProgram};
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The beginning of the name of the folder of each replay.
const PREFIX: &str = "pintle-replay-";
/// The file that a replay locks while it uses its folder.
const LOCK: &str = "replay.lock";

/// The folders of one replay. They are deleted when this is dropped, unless they are kept.
pub(super) struct Scratch {
    /// The folder that contains the others, in the place of the machine's folder.
    pub(super) root: PathBuf,
    /// The copy of the unit's folder.
    pub(super) unit: UnitFolder,
    /// The lock of folders that are deleted at the end; none if they are kept.
    lock: Option<Lock>,
}

impl Scratch {
    /// A copy of what a run needs of the unit, for this user alone, in the folder for temporary files. What replays that
    /// were killed have left there is deleted.
    pub(super) async fn copy(unit: &UnitFolder, keep: bool) -> Result<Scratch> {
        let temporary = std::env::temp_dir();
        delete_leftovers(&temporary);
        let scratch = Scratch::create(&temporary, &unit.tag(), keep)?;
        let paths = [unit.charm(), scratch.unit.charm()].map(|path| path.display().to_string());
        let arguments =
            ["-a".to_owned(), "--reflink=auto".to_owned(), "--".to_owned()].into_iter().chain(paths);
        HostProgram::new("cp", arguments, program::COPY).run().await.context("cannot copy the charm")?;
        if unit.file(CHARM_FILE).exists() {
            fs::copy(unit.file(CHARM_FILE), scratch.unit.file(CHARM_FILE))
                .context("cannot copy what the charm declares")?;
        }
        // juju-exec too: a tool that calls it is answered by the session, and does not reach the unit
        let program = require_hook_program()?;
        for name in commands::NAMES {
            std::os::unix::fs::symlink(&program, scratch.unit.tools().join(name))?;
        }
        Ok(scratch)
    }

    /// New folders for the unit with this tag.
    fn create(temporary: &Path, tag: &str, keep: bool) -> Result<Scratch> {
        let root = temporary.join(format!("{PREFIX}{:016x}", host::random::random_u128() as u64));
        private_dir(&root).with_context(|| format!("cannot create {}", root.display()))?;
        let lock = if keep { None } else { Some(lock(&root)?) };
        let scratch = Scratch { unit: UnitFolder::in_machine(&root, tag), root, lock };
        create_private_folder(&scratch.unit.tools())?;
        create_private_folder(scratch.unit.root())?;
        Ok(scratch)
    }

    /// The socket of the replayed run.
    pub(super) fn socket(&self) -> PathBuf {
        self.root.join("s")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.lock.is_some() {
            delete(&self.root);
        }
    }
}

fn lock(root: &Path) -> Result<Lock> {
    let file = root.join(LOCK);
    match Lock::take(&file, "").with_context(|| format!("cannot lock {}", file.display()))? {
        Ok(lock) => Ok(lock),
        Err(_) => bail!("another process has locked {}", file.display()),
    }
}

fn delete(root: &Path) {
    if let Err(error) = host::tree::remove(root) {
        tracing::warn!("cannot delete {}: {error}", root.display());
    }
}

/// Deletes the folders of replays that were killed.
fn delete_leftovers(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let root = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
            && matches!(exists(&root.join(LOCK)), Ok(true))
            && let Ok(_lock) = lock(&root)
            && !has_running_hook(&root)
        {
            delete(&root);
        }
    }
}

/// Whether the hook of a replay runs, which a replay that is killed does not end.
fn has_running_hook(root: &Path) -> bool {
    let units = fs::read_dir(root.join(api::machine_folder::AGENTS_DIR)).into_iter().flatten().flatten();
    let mut runs = units.flat_map(|unit| UnitFolder::new(unit.path()).kept_runs());
    runs.any(|(_, folder)| is_running(&folder))
}

/// The paths of a replayed run, and those that the recorded run had seen in their place.
pub(super) struct ShownPaths([(String, String); 2]);

impl ShownPaths {
    /// Replaces the paths in the folder `scratch` by those in the folder `shown`, and the paths of their machines.
    pub(super) fn new(scratch: &UnitFolder, shown: &UnitFolder) -> ShownPaths {
        let text = |path: &Path| path.display().to_string();
        ShownPaths([
            (text(scratch.root()), text(shown.root())),
            (text(&scratch.machine()), text(&shown.machine())),
        ])
    }

    /// The text with the paths of the recorded run.
    pub(super) fn replace(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hook_client::shim;
    use host::process::Process;

    #[test]
    fn each_path_is_shown_as_the_hook_has_seen_it() {
        let folder = |machine: &str| UnitFolder::in_machine(Path::new(machine), "unit-web-0");
        let (scratch, shown) = (folder("/tmp/scratch"), folder("/var/lib/juju"));
        let paths = ShownPaths::new(&scratch, &shown);
        let seen = [shown.charm(), shown.tools()].map(|path| path.display().to_string());
        let replayed =
            [scratch.charm(), scratch.tools()].map(|path| paths.replace(&path.display().to_string()));
        assert_eq!(replayed, seen);
    }

    #[test]
    fn only_folders_of_replays_that_were_killed_are_deleted() {
        let temporary = tempfile::tempdir().unwrap();
        let create = |keep| Scratch::create(temporary.path(), "unit-web-0", keep).unwrap();
        let (killed, running, kept, hanging) = (create(false), create(false), create(true), create(false));
        let (other, linked) =
            (temporary.path().join("other"), temporary.path().join(format!("{PREFIX}link")));
        fs::create_dir(&other).unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&other, &linked).unwrap();
        let hook = hanging.unit.runs().join("000001-install");
        fs::create_dir_all(&hook).unwrap();
        fs::write(hook.join(shim::HOOK_PID), Process::current().to_string()).unwrap();
        // as the kernel does when a process is killed
        let release = |scratch: Scratch| {
            scratch.lock.as_ref().map(Lock::release).unwrap().unwrap();
            let root = scratch.root.clone();
            std::mem::forget(scratch);
            root
        };
        let (killed, hanging) = (release(killed), release(hanging));
        for _ in 0..2 {
            delete_leftovers(temporary.path());
            let found =
                [&killed, &hanging, &running.root, &kept.root, &linked, &other].map(|path| path.exists());
            assert_eq!(found, [false, true, true, true, true, true]);
        }
        fs::remove_file(hook.join(shim::HOOK_PID)).unwrap();
        delete_leftovers(temporary.path());
        assert!(!hanging.exists(), "its hook has ended");
    }
}
