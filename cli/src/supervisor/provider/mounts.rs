//! The mount points of this host, and paths that can be used in mount options.
//!
//! Used by the `nspawn` provider for the root file systems of machines, and while a base system is made (`base_system`).

use crate::command_error::CommandError;
use host::mounts::mount_points;
use nix::mount::umount;
use std::path::{Path, PathBuf};

/// Whether a file system is mounted at `root`.
pub(super) fn is_mounted(root: &Path) -> Result<bool, CommandError> {
    Ok(mounted()?.iter().any(|path| path == root))
}

fn mounted() -> Result<Vec<PathBuf>, CommandError> {
    mount_points().map_err(|error| CommandError::new(format!("cannot read the mount points: {error}")))
}

/// Unmounts all file systems below `folder`, innermost first.
pub(super) fn unmount_below(folder: &Path) -> Result<(), CommandError> {
    for path in mounted()?.iter().rev().filter(|path| path.starts_with(folder)) {
        umount(path)
            .map_err(|error| CommandError::new(format!("cannot unmount {}: {error}", path.display())))?;
    }
    Ok(())
}

/// The canonical path of a folder, as in the kernel's list of mounts. Rejects paths that [`require_mount_path`]
/// rejects.
pub(super) fn mount_path(folder: &Path) -> Result<PathBuf, CommandError> {
    let path = folder
        .canonicalize()
        .map_err(|error| CommandError::new(format!("cannot resolve {}: {error}", folder.display())))?;
    require_mount_path(&path).map(|()| path)
}

/// Rejects paths with characters that have another meaning in mount options, in the options of systemd-nspawn or in
/// the list of mounts.
pub(super) fn require_mount_path(path: &Path) -> Result<(), CommandError> {
    let special = |byte: &u8| byte.is_ascii_whitespace() || b":,\\".contains(byte);
    if path.as_os_str().as_encoded_bytes().iter().any(special) {
        let message =
            format!("cannot use {} with provider nspawn: its path has special characters", path.display());
        return Err(CommandError::new(message).hint("choose a path without blanks, ':', ',' and '\\'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_mount_path_is_canonical_and_has_no_special_characters() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("the folder exists").join("real");
        fs::create_dir(&real).expect("made");
        symlink(&real, folder.path().join("link")).expect("made");
        assert_eq!(mount_path(&folder.path().join("link")), Ok(real.clone()));
        for name in ["a b", "a:b", "a,b", "a\\b", "a\nb"] {
            let path = real.join(name);
            fs::create_dir(&path).expect("made");
            assert!(mount_path(&path).is_err(), "{name:?}");
        }
    }
}
