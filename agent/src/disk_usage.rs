//! Measures what a unit takes on the disk of its machine.
//!
//! Reads only. Called by the machine agent (`unit_supervisor`), which reports it to the controller every half hour.

use crate::folder::UnitFolder;
use state::terms::disk_usage::UnitDiskUsage;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of `blocks` in the metadata of a file.
const BLOCK_BYTES: u64 = 512;

/// What the folder of a unit takes. What cannot be read counts as nothing.
pub fn measure(folder: &UnitFolder) -> UnitDiskUsage {
    let mut usage = UnitDiskUsage::default();
    for entry in fs::read_dir(folder.root()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let part = match name.as_ref() {
            "hooks" => &mut usage.runs_bytes,
            "charm" => &mut usage.charm_bytes,
            name if name.contains(".log") => &mut usage.logs_bytes,
            _ => &mut usage.state_bytes,
        };
        *part = part.saturating_add(bytes_of(&entry.path()));
    }
    usage
}

/// The blocks of a file, or of a folder with everything in it. Links are not followed.
fn bytes_of(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    let own = found.blocks() * BLOCK_BYTES;
    if !found.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.fold(own, |sum, entry| sum.saturating_add(bytes_of(&entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_folder_is_measured_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, blocks: usize| {
            let path = dir.path().join("unit").join(path);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("created");
            fs::write(path, vec![1; blocks * 4096]).expect("written");
        };
        write("hooks/000001/output.log", 4);
        write("charm/src/charm.py", 3);
        write("agent.log", 2);
        write("state.yaml", 1);
        write("../elsewhere", 100);
        std::os::unix::fs::symlink("../elsewhere", dir.path().join("unit/run")).expect("linked");
        let usage = measure(&UnitFolder::new(dir.path().join("unit")));
        let blocks = [usage.runs_bytes, usage.charm_bytes, usage.logs_bytes, usage.state_bytes];
        // a folder takes at most one block of its own, or none
        for (bytes, files, folders) in
            [(blocks[0], 4, 2), (blocks[1], 3, 2), (blocks[2], 2, 0), (blocks[3], 1, 0)]
        {
            assert!((files * 4096..=(files + folders) * 4096).contains(&bytes), "{blocks:?}");
        }
        assert_eq!(usage.total_bytes(), blocks.iter().sum::<u64>());
    }
}
