//! Which files of the installed charm were deleted by others: such a charm is unpacked again before its next program runs.
//!
//! A hook whose file is missing is skipped, as Juju does, so a charm without its `dispatch` would appear to work. The
//! programs are checked before each run; all other files only after a hook has failed, because a charm has thousands. A
//! file that a successful hook has deleted itself is not damage.
//!
//! Called by `hook_process` and `port`.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;

/// The most names of missing files that one line of the log has.
const NAMED_MAX: usize = 5;

/// The files of one installed charm.
pub(super) struct UnpackedFiles {
    /// What the agent itself looks for in the charm's folder, of the files that were unpacked.
    programs: RefCell<Vec<String>>,
    /// Whether files were missing after a hook that failed.
    were_missing: Cell<bool>,
}

impl UnpackedFiles {
    /// The files of the charm in this folder.
    pub(super) fn of(charm: &Path) -> UnpackedFiles {
        let mut programs = charms::unpacked_files(charm);
        programs.retain(|path| is_program(path));
        UnpackedFiles { programs: RefCell::new(programs), were_missing: Cell::new(false) }
    }

    /// Whether the charm must be unpacked again.
    pub(super) fn are_missing(&self, charm: &Path) -> bool {
        self.were_missing.get() || self.programs.borrow().iter().any(|path| is_missing(charm, path))
    }

    /// Notes what is missing after a run of the charm.
    pub(super) fn note_missing(&self, charm: &Path, has_failed: bool) {
        if !has_failed {
            self.programs.borrow_mut().retain(|path| !is_missing(charm, path));
            return;
        }
        let missing: Vec<String> =
            charms::unpacked_files(charm).into_iter().filter(|path| is_missing(charm, path)).collect();
        if !missing.is_empty() {
            let named = missing.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                "{} files of the charm are missing ({named}): it is unpacked again",
                missing.len()
            );
            self.were_missing.set(true);
        }
    }
}

/// Whether the agent looks for this file before it starts a hook or an action.
fn is_program(path: &str) -> bool {
    ["dispatch", "metadata.yaml"].contains(&path)
        || path.starts_with("hooks/")
        || path.starts_with("actions/")
}

fn is_missing(charm: &Path, path: &str) -> bool {
    fs::symlink_metadata(charm.join(path)).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A charm that was unpacked, whose files have the digest 0.
    fn unpacked(unit: &Path) -> std::path::PathBuf {
        let charm = unit.join("charm");
        fs::create_dir_all(charm.join("hooks")).unwrap();
        fs::create_dir(charm.join("src")).unwrap();
        let files = ["hooks/install", "metadata.yaml", "src/charm.py"];
        let manifest: String = files.iter().map(|path| format!("0  {path}\n")).collect();
        files.iter().for_each(|path| fs::write(charm.join(path), "").unwrap());
        fs::write(charm.join(".juju-charm"), "0123456789abcdef0123 4\n").unwrap();
        fs::write(unit.join("charm.manifest-0123456789abcdef"), manifest).unwrap();
        charm
    }

    #[test]
    fn a_missing_program_is_damage_unless_a_hook_has_deleted_it() {
        let unit = tempfile::tempdir().unwrap();
        let charm = unpacked(unit.path());
        let files = UnpackedFiles::of(&charm);
        assert!(!files.are_missing(&charm));
        fs::remove_file(charm.join("hooks/install")).unwrap();
        assert!(files.are_missing(&charm));
        files.note_missing(&charm, false);
        assert!(!files.are_missing(&charm), "the hook that has just run has deleted it");
        assert!(UnpackedFiles::of(&charm).are_missing(&charm));
    }

    #[test]
    fn another_missing_file_is_damage_once_a_hook_has_failed() {
        let unit = tempfile::tempdir().unwrap();
        let charm = unpacked(unit.path());
        let files = UnpackedFiles::of(&charm);
        files.note_missing(&charm, true);
        assert!(!files.are_missing(&charm), "nothing is missing");
        fs::remove_file(charm.join("src/charm.py")).unwrap();
        files.note_missing(&charm, false);
        assert!(!files.are_missing(&charm), "the charm does without it");
        files.note_missing(&charm, true);
        assert!(files.are_missing(&charm));
    }
}
