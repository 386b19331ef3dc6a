//! Chooses the folder of a unit's tool socket: one that no other user can enter, replace, or create first.
//!
//! It is the folder `run` in the unit's folder, if the path is short enough for a socket. Otherwise `run` is a link
//! to a folder elsewhere. A folder that belongs to another user is never used. The choice is kept as long as it is
//! valid, because a running hook has the path of its socket in its environment.
//!
//! Called by `unit_program`, and by `deployer` when it deletes a unit.

use crate::folder::{UnitFolder, private_dir};
use api::machine_folder::SOCKET_DIR;
use nix::unistd::geteuid;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the socket in its folder.
pub const SOCKET: &str = "agent.socket";
/// The kernel has 108 bytes for the path of a socket and its terminating zero.
const PATH_BYTES_MAX: usize = 107;
/// The name of a socket folder is the start of the digest of the unit's path: 12 hexadecimal digits, 48 bits.
const DIGEST_DIGITS: usize = 12;

/// The folder of this unit's tool socket, which is created if it does not exist.
///
/// # Errors
/// If no folder can be created for it; the error lists the folders that were tried.
pub fn socket_dir(folder: &UnitFolder) -> io::Result<PathBuf> {
    let (uid, runtime) = (geteuid(), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    // only root may create a folder in /run
    let system = uid.is_root().then(|| PathBuf::from("/run"));
    let bases: Vec<PathBuf> = runtime
        .into_iter()
        .chain(system)
        .chain([PathBuf::from("/tmp")])
        .filter(|base| base.is_dir())
        .collect();
    choose(folder, &bases, PATH_BYTES_MAX)
}

/// The folder of this unit's tool socket as its agent has chosen it.
pub fn existing(folder: &UnitFolder) -> PathBuf {
    let run = folder.file(SOCKET_DIR);
    fs::read_link(&run).unwrap_or(run)
}

fn choose(folder: &UnitFolder, bases: &[PathBuf], path_bytes_max: usize) -> io::Result<PathBuf> {
    let run = folder.file(SOCKET_DIR);
    match fs::read_link(&run) {
        Ok(kept) if is_private(&kept) && kept.parent().is_some_and(is_safe) => return Ok(kept),
        Ok(_) => fs::remove_file(&run)?,
        Err(_) => {}
    }
    let fits = |dir: &Path| dir.join(SOCKET).as_os_str().len() <= path_bytes_max;
    if fits(&run) {
        private_dir(&run)?;
        return Ok(run);
    }
    if run.is_dir() {
        // the unit's folder has been moved to a longer path
        fs::remove_dir_all(&run)?;
    }
    let mut tried = Vec::new();
    let digest = host::digest::sha256(folder.root().as_os_str().as_encoded_bytes());
    for base in bases {
        // another user cannot have guessed the second name
        let own = base.join(format!("pintle-{}", geteuid()));
        let unpredictable = base.join(format!("pintle-{}-{:032x}", geteuid(), host::random::random_u128()));
        for dir in [own, unpredictable]
            .map(|parent| parent.join(&digest[..DIGEST_DIGITS]))
            .iter()
            .filter(|dir| fits(dir))
        {
            match create(base, dir) {
                Ok(()) => {
                    std::os::unix::fs::symlink(dir, &run)?;
                    return Ok(dir.clone());
                }
                Err(error) => {
                    let error = format!("{}: {error}", dir.parent().unwrap_or(dir).display());
                    tracing::warn!("cannot use a folder for the tool socket: {error}; trying another one");
                    tried.push(error);
                }
            }
        }
    }
    let path = folder.root().display();
    Err(io::Error::other(format!(
        "cannot create a folder for the tool socket of {path}: {}",
        tried.join("; ")
    )))
}

/// Creates the folder and its parent in `base`, for this user alone.
fn create(base: &Path, dir: &Path) -> io::Result<()> {
    if !is_safe(base) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users may replace folders in it"));
    }
    private_dir(dir.parent().unwrap_or(base))?;
    private_dir(dir)
}

/// Whether this is a folder that only this user may enter.
fn is_private(dir: &Path) -> bool {
    let found = fs::symlink_metadata(dir);
    found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
}

/// Whether no other user may rename or delete this user's entries in a folder.
fn is_safe(dir: &Path) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    fs::metadata(dir).is_ok_and(|found| {
        let is_trusted = found.uid() == 0 || found.uid() == geteuid().as_raw();
        is_trusted && (found.mode() & WRITABLE_BY_OTHERS == 0 || found.mode() & STICKY != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skip;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A unit's folder, and a folder in which all users may create folders, as in /tmp.
    fn fixture() -> (tempfile::TempDir, UnitFolder, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        let (unit, base) = (dir.path().join("unit-web-0"), dir.path().join("shared"));
        fs::create_dir(&unit).expect("it is new");
        fs::create_dir(&base).expect("it is new");
        fs::set_permissions(&base, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        (dir, UnitFolder::new(unit), base)
    }

    /// A limit at which each name in the shared folder fits.
    fn limit(base: &Path) -> usize {
        base.join("pintle-4294967295-").join("0".repeat(32 + DIGEST_DIGITS)).join(SOCKET).as_os_str().len()
    }

    /// A unit's folder whose path is longer than any in the shared one.
    fn deep(dir: &Path) -> UnitFolder {
        let unit = dir.join("deep".repeat(40)).join("unit-web-0");
        fs::create_dir_all(&unit).expect("it is new");
        UnitFolder::new(unit)
    }

    #[test]
    fn a_short_path_is_in_the_folder_of_the_unit() {
        let (_dir, folder, base) = fixture();
        let max = limit(&base);
        assert_eq!(choose(&folder, std::slice::from_ref(&base), max).unwrap(), folder.file(SOCKET_DIR));
        assert!(is_private(&folder.file(SOCKET_DIR)));
        assert_eq!(fs::read_dir(base).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_another_user_has_taken_is_not_used() {
        let (dir, _, base) = fixture();
        let folder = deep(dir.path());
        let (max, bases) = (limit(&base), std::slice::from_ref(&base));
        let taken = base.join(format!("pintle-{}", geteuid()));
        let target = dir.path().join("elsewhere");
        fs::create_dir(&target).unwrap();
        symlink(&target, &taken).unwrap();

        let chosen = choose(&folder, bases, max).unwrap();

        assert!(chosen.starts_with(&base) && !chosen.starts_with(&taken), "{}", chosen.display());
        assert!(is_private(&chosen) && is_private(chosen.parent().unwrap()));
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "nothing was created behind the link");
        assert_eq!(choose(&folder, bases, max).unwrap(), chosen, "it is kept");
        if !geteuid().is_root() {
            return skip("socket_dir, the folder of another user", "only root can create it");
        }
        fs::remove_file(&taken).unwrap();
        fs::create_dir(&taken).unwrap();
        nix::unistd::chown(&taken, Some(65_534.into()), None).unwrap();
        let other = deep(&dir.path().join("other"));
        let chosen = choose(&other, bases, max).unwrap();
        assert!(!chosen.starts_with(&taken), "{}", chosen.display());
        assert_eq!(fs::read_dir(&taken).unwrap().count(), 0);
    }

    #[test]
    fn a_kept_folder_that_others_may_enter_is_replaced() {
        let (dir, _, base) = fixture();
        let folder = deep(dir.path());
        let (max, bases) = (limit(&base), std::slice::from_ref(&base));
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&foreign, folder.file(SOCKET_DIR)).unwrap();

        let chosen = choose(&folder, bases, max).unwrap();

        assert!(chosen.starts_with(&base), "{}", chosen.display());
        assert_eq!(fs::read_link(folder.file(SOCKET_DIR)).unwrap(), chosen);
    }

    #[test]
    fn a_base_in_which_others_may_rename_is_refused_by_name() {
        let (dir, _, base) = fixture();
        let folder = deep(dir.path());
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        let max = limit(&base);
        let refused = choose(&folder, std::slice::from_ref(&base), max).unwrap_err().to_string();
        assert!(refused.contains(&format!("{}/pintle-", base.display())), "{refused}");
        let refused = create(&base, &base.join("pintle-0/unit")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
