//! The lock of a data folder: at most one supervisor runs per folder.
//!
//! A kernel lock on a file; the kernel releases it when the holder exits. The holder is read from the kernel: the text
//! of the file may have been written at another time or in another folder.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use api::data_folder::MIGRATION_LOCK;
use host::lock::{HeldLock, Lock};
use host::process::Process;
use std::path::Path;

/// The lock of the store, in a data folder.
const STORE_LOCK: &str = "controller/store/store.lock";

/// How much of the text in the lock of the store is read: a word and a process id.
const LOCK_TEXT_BYTES_MAX: u64 = 64;

/// The running supervisor of this folder, if there is one.
pub fn holder(dir: &DataDir) -> Option<Process> {
    let path = dir.supervisor_lock();
    let is_supervisor = |lock: &HeldLock| path.file_name() == Some(lock.file.as_os_str());
    let deleted = || host::lock::held_below(dir.path()).into_iter().find(is_supervisor);
    host::lock::holder(&path).or_else(|| deleted().map(|lock| lock.holder))
}

/// The controller of this folder, if it runs. It locks the folder of its store, also if the store is in etcd; a migration of
/// the store holds the same lock and is none.
pub fn controller(dir: &DataDir) -> Option<Process> {
    Process::read_alive(&dir.controller_pid())
        .or_else(|| store_holder(dir).filter(|holder| !is_migration(dir, *holder)))
}

/// The controllers of this folder that run: one, or two with an etcd of its own.
pub fn controllers(dir: &DataDir) -> Vec<Process> {
    [controller(dir), controller(&dir.second_controller())].into_iter().flatten().collect()
}

/// The etcd of this folder, if it runs. It locks the files of its data.
pub fn etcd(dir: &DataDir) -> Option<Process> {
    let locked = || host::lock::held_below(&dir.etcd()).into_iter().next().map(|lock| lock.holder);
    Process::read_alive(&dir.etcd_pid()).or_else(locked)
}

/// Refuses a folder whose store is being migrated: a controller that starts would find the store in use, and a migration
/// that is ended has to be repeated.
///
/// # Errors
/// If a migration runs. The error names its process.
pub fn require_no_migration(dir: &DataDir) -> Result<(), CommandError> {
    let Some(migration) = store_holder(dir).filter(|holder| is_migration(dir, *holder)) else {
        return Ok(());
    };
    Err(CommandError::new(format!(
        "cannot use {}: pintle-controller migrate (process {}) moves its models; wait until it has ended",
        dir.path().display(),
        migration.pid
    )))
}

/// Whether the holder of the lock of the store is a migration. The text of the file counts only if it names the holder.
fn is_migration(dir: &DataDir, holder: Process) -> bool {
    let text = host::file::read_regular(&dir.path().join(STORE_LOCK), LOCK_TEXT_BYTES_MAX);
    text.is_ok_and(|(text, _)| text == format!("{MIGRATION_LOCK} {}", holder.pid).as_bytes())
}

/// The process that holds the lock of the store.
fn store_holder(dir: &DataDir) -> Option<Process> {
    let is_store = |lock: &HeldLock| lock.file == Path::new(STORE_LOCK);
    let deleted = || host::lock::held_below(dir.path()).into_iter().find(is_store).map(|lock| lock.holder);
    host::lock::holder(&dir.path().join(STORE_LOCK)).or_else(deleted)
}

/// Acquires the lock for this process until the returned value is dropped. An error if another process holds it.
pub fn acquire(dir: &DataDir) -> Result<Lock, CommandError> {
    let path = dir.supervisor_lock();
    let failed =
        |error: std::io::Error| CommandError::new(format!("cannot lock {}: {error}", path.display()));
    Lock::take(&path, &format!("{}\n", Process::current())).map_err(failed)?.map_err(|_| {
        let holder = self::holder(dir)
            .map_or("another process".to_owned(), |process| format!("process {}", process.pid));
        CommandError::new(format!("cannot lock {}: {holder} already supervises it", dir.path().display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a former holder does not make the present one a migration.
    #[test]
    fn a_migration_that_holds_the_lock_of_the_store_is_no_controller() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        let store = folder.path().join(STORE_LOCK);
        std::fs::create_dir_all(store.parent().expect("in a folder")).expect("made");
        require_no_migration(&dir).expect("nothing runs");
        let own = Process::current();
        let take = |text: String| Lock::take(&store, &text).expect("it can be opened").expect("it is free");
        let held = take(format!("{MIGRATION_LOCK} {}", own.pid));
        assert_eq!(controller(&dir), None);
        let refused = require_no_migration(&dir).expect_err("it runs");
        assert!(refused.message.contains(&own.pid.to_string()), "{refused:?}");
        drop(held);
        require_no_migration(&dir).expect("it has ended");
        for other in [format!("process {}", own.pid), format!("{MIGRATION_LOCK} {}", own.pid + 1)] {
            let held = take(other);
            assert_eq!(controller(&dir), Some(own));
            require_no_migration(&dir).expect("it is a controller");
            drop(held);
        }
    }

    #[test]
    fn a_second_holder_is_rejected_with_the_process_id_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        assert_eq!(holder(&dir), None);
        Process::current().write(&dir.supervisor_lock()).expect("as in a copy");
        assert_eq!(holder(&dir), None, "nobody holds the lock");
        let held = acquire(&dir).expect("free");
        let failure = acquire(&dir).expect_err("held");
        let expected = format!("process {} already supervises it", std::process::id());
        assert!(failure.message.ends_with(&expected), "{failure:?}");
        drop(held);
        acquire(&dir).expect("free again");
    }
}
