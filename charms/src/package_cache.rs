//! Bounds and measures the package cache, in which `packages` keeps installed sets of Python packages and pip's wheels.
//!
//! A deleted set is installed again when it is needed. A set that was used within the last hour is kept, because
//! another deployment may be copying it into an archive. The cache grows only while pip runs, whether it succeeds or
//! fails: `packages` calls `trim` after each attempt. `pintle disk-usage` shows its size ([`measure`]).

use host::file::disk_bytes;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Installed sets that are kept: 20 to 60 MB each, 2 GB together.
pub const SETS_MAX: usize = 32;
/// The bytes of pip's cache: the downloaded and built wheels of some 20 charms. Beyond it, all of them are deleted.
pub const WHEELS_BYTES_MAX: u64 = 1 << 30;
/// A set that was used within this time may be in use: packing a charm takes minutes at most.
const IN_USE: Duration = Duration::from_secs(3_600);
/// The folder of pip's cache.
pub(crate) const WHEELS: &str = "wheels";
/// The suffixes of a folder that is being installed or deleted; the id of the process follows.
const UNFINISHED: [&str; 2] = [".new-", ".old-"];

/// The disk usage of the package cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageCacheUsage {
    /// The number of installed sets.
    pub sets: usize,
    /// Their bytes.
    pub sets_bytes: u64,
    /// The bytes of pip's cache.
    pub wheels_bytes: u64,
}

/// Measures the package cache. Files that cannot be read count as empty.
pub fn measure(cache: &Path) -> PackageCacheUsage {
    let sets = sets(cache);
    let sets_bytes = sets.iter().map(|(_, set)| bytes(set)).sum();
    PackageCacheUsage { sets: sets.len(), sets_bytes, wheels_bytes: bytes(&cache.join(WHEELS)) }
}

/// Records that a set is used now.
pub(crate) fn record_use(set: &Path) {
    // if this fails, the set may be deleted earlier and is then installed again
    let _ = File::open(set).and_then(|folder| folder.set_modified(SystemTime::now()));
}

/// Deletes the least recently used sets beyond the bound, the wheels if they exceed theirs, and the unfinished folders
/// of killed processes. A folder that cannot be deleted stays until the next attempt to install a set.
pub(crate) fn trim(cache: &Path) {
    trim_to(cache, SystemTime::now(), WHEELS_BYTES_MAX);
}

fn trim_to(cache: &Path, now: SystemTime, wheels_bytes_max: u64) {
    for folder in folders(cache).into_iter().filter(|folder| is_abandoned(folder)) {
        let _ = fs::remove_dir_all(folder);
    }
    let mut sets = sets(cache);
    sets.sort();
    let surplus = sets.len().saturating_sub(SETS_MAX);
    let is_unused = |used: &SystemTime| now.duration_since(*used).is_ok_and(|unused| unused > IN_USE);
    for (_, set) in sets.iter().take(surplus).filter(|(used, _)| is_unused(used)) {
        delete(set);
    }
    let wheels = cache.join(WHEELS);
    if bytes(&wheels) > wheels_bytes_max {
        delete(&wheels);
    }
}

/// Renames a folder, so that no process finds a part of it, and deletes it.
fn delete(folder: &Path) {
    let old = folder.with_extension(format!("old-{}", std::process::id()));
    if fs::rename(folder, &old).is_ok() {
        let _ = fs::remove_dir_all(old);
    }
}

/// The complete sets, with the time of their last use.
fn sets(cache: &Path) -> Vec<(SystemTime, PathBuf)> {
    let complete = folders(cache).into_iter().filter(|folder| {
        folder.extension().is_none() && folder.file_name().is_some_and(|name| name != WHEELS)
    });
    complete.filter_map(|set| Some((fs::metadata(&set).ok()?.modified().ok()?, set))).collect()
}

/// Whether the process that installs or deletes a folder has ended.
fn is_abandoned(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let process = UNFINISHED.iter().find_map(|mark| name.split_once(mark)).map(|(_, process)| process);
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The blocks of everything in a folder. Links are not followed.
fn bytes(folder: &Path) -> u64 {
    let (mut bytes, mut pending) = (0, vec![folder.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            bytes += disk_bytes(&found);
            if found.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_that_were_not_used_for_longest_are_deleted_beyond_the_bound() {
        let cache = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let set = |name: &str, hours_ago: u32| {
            let folder = cache.path().join(name);
            fs::create_dir_all(folder.join("site")).expect("created");
            fs::write(folder.join("site/module.py"), [1; 4096]).expect("written");
            let used = now - Duration::from_secs(3_601) * hours_ago;
            File::open(&folder).and_then(|folder| folder.set_modified(used)).expect("its owner may");
            folder
        };
        let abandoned = set("c.new-2147483647", 9);
        let running = set(&format!("d.new-{}", std::process::id()), 9);
        set(WHEELS, 9);
        let sets: Vec<PathBuf> = (0..SETS_MAX + 2).map(|n| set(&format!("{n:02}"), 2)).collect();
        let (oldest, used_again) = (set("oldest", 20), set("older", 30));
        record_use(&used_again);
        assert_eq!(measure(cache.path()).sets, SETS_MAX + 4);
        trim_to(cache.path(), now, WHEELS_BYTES_MAX);
        assert_eq!([&oldest, &abandoned].map(|folder| folder.exists()), [false; 2]);
        assert_eq!([&used_again, &running].map(|folder| folder.exists()), [true; 2]);
        assert_eq!(sets.iter().map(|set| set.exists()).filter(|exists| *exists).count(), SETS_MAX - 1);
        let usage = measure(cache.path());
        assert_eq!(usage.sets, SETS_MAX);
        assert!(usage.sets_bytes >= 4096 * SETS_MAX as u64 && usage.wheels_bytes >= 4096, "{usage:?}");
        for number in 0..SETS_MAX {
            record_use(&set(&format!("new-{number}"), 0));
        }
        trim_to(cache.path(), now, WHEELS_BYTES_MAX);
        assert_eq!(measure(cache.path()).sets, SETS_MAX + 1, "sets in use are kept beyond the bound");
    }

    #[test]
    fn the_wheels_are_deleted_beyond_their_bytes() {
        let cache = tempfile::tempdir().expect("a folder");
        let file = cache.path().join(WHEELS).join("http/large");
        fs::create_dir_all(file.parent().expect("in a folder")).expect("created");
        fs::write(&file, [1; 4096]).expect("written");
        trim(cache.path());
        assert!(file.exists());
        trim_to(cache.path(), SystemTime::now(), 4095);
        assert!(!cache.path().join(WHEELS).exists());
    }
}
