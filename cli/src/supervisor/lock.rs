//! The lock of a data folder: at most one supervisor runs per folder.
//!
//! A kernel lock on a file that contains the process ID of its holder; the kernel releases it when the holder exits.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use host::lock::Lock;
use host::process::Process;

/// The running supervisor of this folder, if there is one. The file of a copied folder names the supervisor of the
/// original, which does not hold the lock of the copy.
pub fn holder(dir: &DataDir) -> Option<Process> {
    let path = dir.supervisor_lock();
    // The lock is tested only if the process runs: a test holds the lock for a moment, which a supervisor that starts
    // would take for another supervisor.
    Process::read_alive(&path).filter(|_| host::lock::is_held(&path))
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
