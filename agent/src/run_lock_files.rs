//! The files of the locks under which hooks and actions run: in the folder of a machine and in those of its units.
//!
//! A lock is held as long as its file is locked (`host::lock`). The agent takes it, the shim of the run inherits it, and the
//! machine agent takes all that exist before a reboot.

use crate::folder::UnitFolder;
use host::digest::sha256;
use state::terms::run_lock::RunLock;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The hook lock in the folder of a machine or of a unit.
pub(crate) const HOOK_LOCK: &str = "hook.lock";
/// The files of execution groups begin and end with this.
const GROUP: (&str, &str) = ("hook-", ".lock");
/// The longest name of an execution group that is part of the name of its file: with the rest, it has 74 of 255 bytes.
const GROUP_BYTES_MAX: usize = 64;

/// The file of the lock of a run of this unit.
pub(crate) fn file(folder: &UnitFolder, lock: &RunLock) -> PathBuf {
    match lock {
        RunLock::Machine => folder.machine().join(HOOK_LOCK),
        RunLock::Unit => folder.file(HOOK_LOCK),
        RunLock::Group(group) => folder.machine().join(group_file(group)),
    }
}

/// The name of the file of an execution group. A charm may give a group any name: one that is no plain file name is replaced
/// by its digest.
fn group_file(group: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let (begin, end) = GROUP;
    match group.len() <= GROUP_BYTES_MAX && group.bytes().all(is_plain) {
        true => format!("{begin}{group}{end}"),
        false => format!("{begin}{}{end}", sha256(group.as_bytes())),
    }
}

/// The files of the execution groups of which an action has run on the machine.
pub(crate) fn group_files(machine: &Path) -> io::Result<Vec<PathBuf>> {
    let is_group = |name: &str| name.strip_prefix(GROUP.0).is_some_and(|rest| rest.ends_with(GROUP.1));
    let mut files = Vec::new();
    for entry in fs::read_dir(machine)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_group) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_execution_group_has_a_file_of_its_own_in_the_folder_of_the_machine() {
        let machine = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::in_machine(machine.path(), "unit-web-0");
        let long = "g".repeat(300);
        let groups = ["backup", "../etc", "a/b", "a b", "größe", long.as_str()];
        let files: BTreeSet<_> =
            groups.iter().map(|group| file(&folder, &RunLock::Group((*group).to_owned()))).collect();
        assert_eq!(files.len(), groups.len());
        for file in &files {
            assert_eq!(file.parent(), Some(machine.path()));
            fs::write(file, "").expect("it is a file name");
        }
        fs::write(machine.path().join(HOOK_LOCK), "").expect("written");
        let found: BTreeSet<_> = group_files(machine.path()).expect("read").into_iter().collect();
        assert_eq!(found, files);
        assert!(files.contains(&machine.path().join("hook-backup.lock")));
    }
}
