//! The lock of a data folder: at most one supervisor runs per folder.
//!
//! A kernel lock on a file; the kernel releases it when the holder exits. The holder is read from the kernel: the text
//! of the file may have been written at another time or in another folder.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use host::lock::{HeldLock, Lock};
use host::process::Process;
use std::path::Path;

/// The lock of the store, in a data folder.
const STORE_LOCK: &str = "controller/store/store.lock";

/// The running supervisor of this folder, if there is one.
pub fn holder(dir: &DataDir) -> Option<Process> {
    let path = dir.supervisor_lock();
    let is_supervisor = |lock: &HeldLock| path.file_name() == Some(lock.file.as_os_str());
    let deleted = || host::lock::held_below(dir.path()).into_iter().find(is_supervisor);
    host::lock::holder(&path).or_else(|| deleted().map(|lock| lock.holder))
}

/// The controller of this folder, if it runs. It locks the folder of its store, also if the store is in etcd.
pub fn controller(dir: &DataDir) -> Option<Process> {
    let is_store = |lock: &HeldLock| lock.file == Path::new(STORE_LOCK);
    let deleted = || host::lock::held_below(dir.path()).into_iter().find(is_store).map(|lock| lock.holder);
    let held = || host::lock::holder(&dir.path().join(STORE_LOCK)).or_else(deleted);
    Process::read_alive(&dir.controller_pid()).or_else(held)
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
