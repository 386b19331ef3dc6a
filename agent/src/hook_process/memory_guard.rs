//! Whether the host has memory for warm parents, and how many of them a machine may have.
//!
//! The memory is that of the host, also in a container whose `/proc/meminfo` shows it.

use host::lock::Lock;
use state::unit::parent_memory::has_memory_for_parent;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which the available memory is read while there is a warm parent: reading takes some 50 µs.
pub(super) const MEMORY_INTERVAL: Duration = Duration::from_secs(10);
/// The number of warm parents on a machine: with some 30 MiB each, 3 GiB.
pub(super) const PARENTS_MAX: usize = 100;

/// The folder, in that of the machine, with a file for each warm parent, whose lock it has.
const PLACES: &str = "warm-parents";
const MEMINFO: &str = "/proc/meminfo";

/// Reads the available memory, and logs when there is too little of it.
#[derive(Debug)]
pub(super) struct MemoryGuard {
    file: PathBuf,
    is_low: AtomicBool,
}

impl Default for MemoryGuard {
    fn default() -> MemoryGuard {
        MemoryGuard { file: MEMINFO.into(), is_low: AtomicBool::new(false) }
    }
}

impl MemoryGuard {
    /// Whether there is memory for a warm parent. The first time that there is none is logged.
    pub(super) fn has_room(&self) -> bool {
        let has_room = has_memory_for_parent(&fs::read_to_string(&self.file).unwrap_or_default());
        let was_low = self.is_low.swap(!has_room, Ordering::Relaxed);
        if !has_room && !was_low {
            tracing::info!("hooks start without a warm parent: the host has little available memory");
        }
        has_room
    }
}

/// A free place for a warm parent on this machine, until the lock is dropped. None if all are taken, or the folder cannot be
/// used.
pub(super) fn free_place(machine: &Path, holder: &str) -> Option<Lock> {
    let folder = machine.join(PLACES);
    crate::folder::private_dir(&folder).ok()?;
    (0..PARENTS_MAX).find_map(|number| Lock::take(&folder.join(number.to_string()), holder).ok()?.ok())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::Arc;
    use tempfile::TempDir;

    pub(in crate::hook_process) const LITTLE: &str =
        "MemTotal:       4000000 kB\nMemFree:  1 kB\nMemAvailable:    399999 kB\n";

    /// A guard that reads a file with this text.
    pub(in crate::hook_process) fn guard(text: &str) -> (TempDir, Arc<MemoryGuard>) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("meminfo");
        fs::write(&file, text).expect("written");
        (folder, Arc::new(MemoryGuard { file, is_low: AtomicBool::new(false) }))
    }

    #[test]
    fn the_memory_is_read_each_time() {
        let (folder, guard) = guard(LITTLE);
        assert!(!guard.has_room());
        fs::write(folder.path().join("meminfo"), LITTLE.replace("399999", "400000")).expect("written");
        assert!(guard.has_room());
        assert!(MemoryGuard::default().file.exists());
    }

    #[test]
    fn a_machine_has_a_bounded_number_of_parents() {
        let folder = tempfile::tempdir().expect("a folder");
        let take = || free_place(folder.path(), "a test");
        let mut places: Vec<Lock> = (0..PARENTS_MAX).map(|_| take().expect("it is free")).collect();
        assert!(take().is_none());
        places.pop();
        assert!(take().is_some());
    }
}
