//! Measures the disk space that a unit occupies on its machine.
//!
//! The measurement changes nothing, and holds one folder open at a time, whatever a charm has created: one open folder
//! on each level would use up the descriptors of the machine agent. Called by the machine agent (`unit_supervisor`),
//! which reports the result to the controller every half hour.

use crate::folder::UnitFolder;
use api::machine_folder::RUNS_DIR;
use host::file::{disk_bytes, ignore_not_found};
use state::terms::disk_usage::UnitDiskUsage;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The entries that are measured for a unit: a charm with its Python environment has some 5,000, and 200,000 take about
/// one second.
const ENTRIES_MAX: usize = 200_000;
/// The deepest level that is measured: a charm has some 15 levels.
const DEPTH_MAX: usize = 100;
/// The folders that are queued to be measured: 4,096 paths of at most 4 KiB are 16 MiB.
const PENDING_FOLDERS_MAX: usize = 4_096;

/// The disk space of a unit's folder. The measurement of each part ends at the first error and at the limits of this
/// module; the result is then what was counted until that point.
pub fn measure(folder: &UnitFolder) -> UnitDiskUsage {
    let mut usage = UnitDiskUsage::default();
    let mut entries_left = ENTRIES_MAX;
    // the folder is closed before its parts are measured
    let parts: Vec<fs::DirEntry> =
        fs::read_dir(folder.root()).into_iter().flatten().flatten().take(ENTRIES_MAX).collect();
    for entry in parts {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let part = match name.as_ref() {
            RUNS_DIR => &mut usage.runs_bytes,
            "charm" => &mut usage.charm_bytes,
            name if name.contains(".log") => &mut usage.logs_bytes,
            _ => &mut usage.state_bytes,
        };
        // an error ends the measurement of this part, and what was counted is kept
        add_blocks(entry.path(), part, &mut entries_left).ok();
    }
    usage
}

/// Adds the blocks of a file, or of a folder with everything in it, to `bytes`. Links are not followed. A file
/// that is deleted in the meantime counts as empty.
fn add_blocks(path: PathBuf, bytes: &mut u64, entries_left: &mut usize) -> io::Result<()> {
    let Some(root) = ignore_not_found(fs::symlink_metadata(&path))? else { return Ok(()) };
    *bytes = bytes.saturating_add(disk_bytes(&root));
    let mut pending = Vec::from_iter(root.is_dir().then_some((path, 1)));
    while let Some((folder, depth)) = pending.pop() {
        let Some(entries) = ignore_not_found(fs::read_dir(&folder))? else { continue };
        for entry in entries {
            let entry = entry?;
            *entries_left = entries_left.checked_sub(1).ok_or(ErrorKind::QuotaExceeded)?;
            let Some(found) = ignore_not_found(entry.metadata())? else { continue };
            *bytes = bytes.saturating_add(disk_bytes(&found));
            if found.is_dir() && depth < DEPTH_MAX && pending.len() < PENDING_FOLDERS_MAX {
                pending.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(())
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

    /// Makes folders within folders, with a file of one block on each level.
    fn nest(root: &std::path::Path, levels: usize) {
        let mut path = root.join("charm");
        for _ in 0..levels {
            fs::create_dir_all(&path).expect("created");
            fs::write(path.join("f"), [1; 4096]).expect("written");
            path.push("d");
        }
    }

    #[test]
    fn nested_folders_use_one_descriptor_and_are_measured_to_a_bounded_depth() {
        const NESTED: &str = "PINTLE_TEST_NESTED_FOLDERS";
        if let Some(root) = std::env::var_os(NESTED) {
            println!("measured {}", measure(&UnitFolder::new(root.into())).charm_bytes / 4096);
            return;
        }
        let dir = tempfile::tempdir().expect("a folder");
        nest(dir.path(), 1_000);
        // this test again, in a process that may open few files
        let limited = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 20; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(std::env::current_exe().expect("it has a path"))
            .arg("disk_usage::tests::nested_folders_use_one_descriptor_and_are_measured_to_a_bounded_depth")
            .env(NESTED, dir.path())
            .output()
            .expect("it runs");
        let printed = String::from_utf8_lossy(&limited.stdout);
        let blocks = printed.lines().find_map(|line| line.split_once("measured ")?.1.parse().ok());
        let blocks: usize = blocks.unwrap_or_else(|| panic!("{limited:?}"));
        // a folder takes at most one block of its own, or none
        assert!((DEPTH_MAX..=2 * DEPTH_MAX + 1).contains(&blocks), "{blocks}");
    }

    #[test]
    fn the_entries_that_are_measured_are_bounded() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in 0..9 {
            fs::write(dir.path().join(name.to_string()), [1; 4096]).expect("written");
        }
        let (mut bytes, mut entries_left) = (0, 5);
        assert!(add_blocks(dir.path().to_path_buf(), &mut bytes, &mut entries_left).is_err());
        assert!((5 * 4096..=6 * 4096).contains(&bytes), "{bytes}");
    }
}
