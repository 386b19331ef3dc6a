//! Observes a unit agent from outside: a full disk, damaged files that were set aside, the folder of its socket, the last
//! error in its log, and the last error of the controller.
//!
//! This module changes nothing. It is called for the reports of the machine agent (`unit_supervisor`, `service`) and by
//! `inspect`.

use crate::folder::UnitFolder;
use crate::folder_port::{CONTROLLER_ERROR, is_set_aside};
use crate::installed_programs::{AGENT_PROGRAM, HOOK_PROGRAM};
use crate::run_lock_files::HOOK_LOCK;
use api::machine_folder::SOCKET_DIR;
use host::disk::FullDisk;
use host::file::read_regular_text;
use host::log_tail;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use state::terms::health::{Fault, Limit, LockHolder, LockHolders, UnitHealth, bounded_line};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The log of a unit agent.
pub const AGENT_LOG: &str = "agent.log";

/// The largest file with an error of the controller: the controller answers with some lines.
const CONTROLLER_ERROR_BYTES_MAX: u64 = 64 << 10;

/// The entries of a unit's folder that are searched for set-aside files: it has some 30. Those that a hook adds must not keep
/// the machine agent busy, which looks at each folder every few seconds.
const ENTRIES_MAX: usize = 4_096;

/// The last error that the agent has got from the controller; none if the controller answers.
pub fn controller_error(folder: &UnitFolder) -> Option<String> {
    let text = read_regular_text(&folder.file(CONTROLLER_ERROR), CONTROLLER_ERROR_BYTES_MAX).ok()?;
    Some(bounded_line(text.lines().next()?))
}

/// The health of a unit agent according to its folder, whether or not the agent runs: a full disk, a folder that is not
/// writable, and damaged files that were set aside. It is within the bounds of a report: one that is too large would hide the health of all units of the
/// machine.
pub fn observe(folder: &UnitFolder) -> UnitHealth {
    let entries = fs::read_dir(folder.root()).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut set_aside: Vec<String> = names.filter(|name| is_set_aside(name)).collect();
    set_aside.sort();
    let fault = full_disk(folder.root()).or_else(|| unwritable(folder.root()));
    UnitHealth { exit: None, fault, set_aside, lock_holders: foreign_lock_holders(folder) }.bounded()
}

/// The processes that hold the hook locks under which the unit can run its hooks, unless they are agents or shims. Hooks
/// wait for one of them as long as it lives. A process whose program may not be read is not named: those of agents may not,
/// by ordinary users.
fn foreign_lock_holders(folder: &UnitFolder) -> LockHolders {
    LockHolders {
        machine: foreign_lock_holder(&folder.machine().join(HOOK_LOCK)),
        unit: foreign_lock_holder(&folder.file(HOOK_LOCK)),
    }
}

fn foreign_lock_holder(lock: &Path) -> Option<LockHolder> {
    let holder = host::lock::holder(lock)?;
    let program = holder.program()?;
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_own = [AGENT_PROGRAM, HOOK_PROGRAM].iter().any(|own| name.starts_with(own));
    let pid = u32::try_from(holder.pid).ok().filter(|_| !is_own)?;
    Some(LockHolder { pid, program: program.display().to_string() })
}

/// The fault of a folder in which this user may not write. A folder that cannot be examined for another reason has none.
fn unwritable(folder: &Path) -> Option<Fault> {
    let refused = access(folder, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    matches!(refused, Errno::EACCES | Errno::EPERM | Errno::EROFS).then_some(Fault::UnwritableFolder)
}

/// The limit that the disk of a folder has reached for this user.
fn full_disk(folder: &Path) -> Option<Fault> {
    let limit = match host::disk::full(folder)? {
        FullDisk::Space => Limit::DiskSpace,
        FullDisk::Files => Limit::DiskFiles,
    };
    Some(Fault::Limit(limit))
}

/// The fault of a unit whose socket folder belongs to another user.
pub fn foreign_socket_folder(folder: &UnitFolder) -> Option<Fault> {
    let owner = fs::metadata(folder.root()).ok()?.uid();
    let found = fs::metadata(folder.file(SOCKET_DIR)).ok()?;
    (found.uid() != owner).then_some(Fault::SocketFolder)
}

/// The length of a log, from which the lines of the next process begin.
pub fn log_bytes(folder: &UnitFolder) -> u64 {
    log_tail::bytes(&folder.file(AGENT_LOG))
}

/// The last error in the log of a unit agent after `from` bytes ([`log_tail::last_error_line`]).
pub fn last_error_line(folder: &UnitFolder, from: u64) -> Option<String> {
    log_tail::last_error_line(&folder.file(AGENT_LOG), from).map(|line| bounded_line(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hook has started a process that took the lock, and goes on.
    #[test]
    fn a_foreign_process_that_holds_a_hook_lock_is_named_with_its_program() {
        let machine = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::in_machine(machine.path(), "unit-web-0");
        fs::create_dir_all(folder.root()).expect("made");
        let program = std::env::current_exe().expect("it has a path").display().to_string();
        let this = Some(LockHolder { pid: std::process::id(), program });
        let machine = LockHolders { machine: this.clone(), unit: None };
        let unit = LockHolders { machine: None, unit: this };
        for (at, expected) in [(folder.machine(), machine), (folder.root().to_path_buf(), unit)] {
            assert_eq!(observe(&folder).lock_holders, LockHolders::default());
            let lock = host::lock::Lock::take(&at.join(HOOK_LOCK), "a test").expect("opened").expect("free");
            assert_eq!(observe(&folder).lock_holders, expected);
            drop(lock);
        }
    }

    /// The report of a machine has the health of all of its units, in one request of at most 4 MiB.
    #[test]
    fn the_health_of_a_unit_is_bounded_whatever_is_in_its_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        for number in 1..=12 {
            fs::write(dir.path().join(format!("state.yaml.corrupt-{number}")), "").expect("written");
        }
        fs::write(dir.path().join(format!("state.yaml.corrupt-{}", "1".repeat(220))), "").expect("written");
        for other in ["state.yaml.corrupt-", "state.yaml.corrupt-0x", "journal.yaml.corrupt-1 2"] {
            fs::write(dir.path().join(other), "").expect("written");
        }
        let observed = observe(&UnitFolder::new(dir.path().to_owned()));
        assert_eq!(observed.set_aside.len(), 8);
        assert_eq!(observed, observed.clone().bounded());
        let is_numbered = |name: &String| name.ends_with(|last: char| last.is_ascii_digit());
        assert!(observed.set_aside.iter().all(is_numbered), "{observed:?}");
    }
}
