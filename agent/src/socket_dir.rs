//! Chooses the folder of a unit's tool socket: one that no other user can enter, replace, or create first.
//!
//! It is the folder `run` in the unit's folder, if the path is short enough for a socket. Otherwise `run` is a link
//! to a folder elsewhere: in `/run` for root, else in `/tmp`, because agents outlive the session of the user who started
//! them, and `XDG_RUNTIME_DIR` is deleted at its end. A folder that belongs to another user is never used. The choice is
//! kept as long as it is valid, because a running hook has the path of its socket in its environment.
//!
//! A folder elsewhere names its unit's folder in a link, so that it can be removed after a data folder was deleted as a
//! whole ([`remove_abandoned`]).
//!
//! Every hook of the unit can replace `run` by a link to any folder: only a folder that `choose` makes, and that names
//! this unit, is used or removed.
//!
//! Called by `unit_program`, by `deployer` when it deletes a unit, by `machine_program`, and by `juju_exec` to find a socket.

use crate::folder::{UnitFolder, private_dir};
use api::machine_folder::SOCKET_DIR;
use host::file::ignore_not_found;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The name of the socket in its folder.
pub const SOCKET: &str = "agent.socket";
/// The link to the folder of the unit, in a socket folder elsewhere.
const UNIT_LINK: &str = "unit";
/// The kernel has 108 bytes for the path of a socket and its terminating zero.
const PATH_BYTES_MAX: usize = 107;
/// The name of a socket folder is the start of the digest of the unit's path: 12 hexadecimal digits, 48 bits.
const DIGEST_DIGITS: usize = 12;

/// The folder of this unit's tool socket, which is created if it does not exist.
///
/// # Errors
/// If no folder can be created for it; the error lists the folders that were tried.
pub fn socket_dir(folder: &UnitFolder) -> io::Result<PathBuf> {
    choose(folder, &bases(), PATH_BYTES_MAX)
}

/// The folders in which this user creates socket folders, in order of preference. They outlive every session.
fn bases() -> Vec<PathBuf> {
    // only root may create a folder in /run
    let system = geteuid().is_root().then(|| PathBuf::from("/run"));
    system.into_iter().chain([PathBuf::from("/tmp")]).filter(|base| base.is_dir()).collect()
}

/// Removes this user's socket folders whose unit has no folder any more, and on whose socket nobody listens: their data
/// folder was deleted as a whole.
///
/// A unit whose disk is not mounted has no folder either. Nothing is lost then: its agent does not run, and creates the
/// socket folder again, under the same name, when the disk is mounted. `own`: the units of this machine, whose socket
/// folders are kept although a moved data folder has another path than they name.
pub fn remove_abandoned<'a>(own: impl IntoIterator<Item = &'a UnitFolder>) {
    let bases = bases();
    for unit in own {
        if let Some(dir) = elsewhere(unit, &bases)
            && let Err(error) = link_unit(&dir, unit.root())
        {
            tracing::warn!("cannot write {}: {error}", dir.join(UNIT_LINK).display());
        }
    }
    bases.iter().for_each(|base| remove_abandoned_in(base));
}

/// Makes a socket folder name the folder of its unit.
fn link_unit(dir: &Path, unit: &Path) -> io::Result<()> {
    let link = dir.join(UNIT_LINK);
    let unit = std::path::absolute(unit)?;
    if fs::read_link(&link).ok().as_ref() == Some(&unit) {
        return Ok(());
    }
    ignore_not_found(fs::remove_file(&link))?;
    symlink(unit, link)
}

fn remove_abandoned_in(base: &Path) {
    let parents = entries(base).filter(|path| is_parent(path));
    for parent in parents.filter(|parent| is_private(parent)) {
        for dir in entries(&parent).filter(|dir| is_private(dir) && is_abandoned(dir)) {
            match host::tree::remove(&dir) {
                Ok(()) => tracing::info!("removed {}: its unit's folder was deleted", dir.display()),
                Err(error) => tracing::warn!("cannot remove {}: {error}", dir.display()),
            }
        }
        remove_unpredictable(&parent);
    }
}

/// Removes a parent of socket folders with an unpredictable name, if it is empty. The other parent is kept, so that
/// no other user takes its name.
fn remove_unpredictable(parent: &Path) {
    let prefix = format!("{}-", parent_name());
    if parent.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(&prefix)) {
        fs::remove_dir(parent).ok();
    }
}

/// Whether a folder in a base has one of the names of the folders of this user's socket folders.
fn is_parent(path: &Path) -> bool {
    let predictable = parent_name();
    let is_name = |name: &str| {
        name == predictable || name.strip_prefix(&predictable).is_some_and(|rest| rest.starts_with('-'))
    };
    path.file_name().and_then(OsStr::to_str).is_some_and(is_name)
}

/// The name of the folder of this user's socket folders in a base.
fn parent_name() -> String {
    format!("pintle-{}", geteuid())
}

/// Whether the folder of the unit does not exist, and nobody listens on the socket. What cannot be determined does not
/// count as absent.
fn is_abandoned(dir: &Path) -> bool {
    let Ok(unit) = fs::read_link(dir.join(UNIT_LINK)) else { return false };
    matches!(host::file::exists(&unit), Ok(false)) && has_no_listener(&dir.join(SOCKET))
}

/// Whether it is certain that nobody listens on a socket.
fn has_no_listener(path: &Path) -> bool {
    let connected = || -> nix::Result<()> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let probe = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        socket::connect(probe.as_raw_fd(), &UnixAddr::new(path)?)
    };
    matches!(connected(), Err(Errno::ECONNREFUSED | Errno::ENOENT))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The folder of this unit's tool socket as its agent has chosen it.
pub fn existing(folder: &UnitFolder) -> PathBuf {
    let run = folder.file(SOCKET_DIR);
    fs::read_link(&run).unwrap_or(run)
}

/// Removes the folder of a unit's tool socket, wherever it is. A folder that is not this user's, or was not made for this
/// unit, is left alone.
///
/// # Errors
/// If the folder cannot be removed.
pub fn remove(folder: &UnitFolder) -> io::Result<()> {
    remove_of(folder, &bases())
}

fn remove_of(folder: &UnitFolder, bases: &[PathBuf]) -> io::Result<()> {
    let run = folder.file(SOCKET_DIR);
    if is_private(&run) {
        return host::tree::remove(&run);
    }
    let Some(dir) = elsewhere(folder, bases) else { return Ok(()) };
    host::tree::remove(&dir)?;
    dir.parent().into_iter().for_each(remove_unpredictable);
    Ok(())
}

/// The socket folder of a unit to which its link `run` leads. None if there is no link, or it leads to a folder that was
/// not made for this unit. A unit whose folder was moved has a socket folder that names the old path, where nothing is any
/// more.
fn elsewhere(folder: &UnitFolder, bases: &[PathBuf]) -> Option<PathBuf> {
    let dir = fs::read_link(folder.file(SOCKET_DIR)).ok()?;
    let parent = dir.parent()?;
    let is_made_here = bases.iter().any(|base| parent.parent() == Some(base)) && is_parent(parent);
    let is_named_here = |named: PathBuf| {
        std::path::absolute(folder.root()).is_ok_and(|unit| unit == named)
            || matches!(host::file::exists(&named), Ok(false))
    };
    let is_own = is_made_here
        && is_private(parent)
        && is_private(&dir)
        && fs::read_link(dir.join(UNIT_LINK)).is_ok_and(is_named_here);
    is_own.then_some(dir)
}

fn choose(folder: &UnitFolder, bases: &[PathBuf], path_bytes_max: usize) -> io::Result<PathBuf> {
    let run = folder.file(SOCKET_DIR);
    if let Some(kept) = elsewhere(folder, bases) {
        return Ok(kept);
    }
    if run.is_symlink() {
        fs::remove_file(&run)?;
    }
    let fits = |dir: &Path| dir.join(SOCKET).as_os_str().len() <= path_bytes_max;
    if fits(&run) {
        private_dir(&run)?;
        return Ok(run);
    }
    if run.is_dir() {
        // the unit's folder has been moved to a longer path
        host::tree::remove(&run)?;
    }
    let mut tried = Vec::new();
    let digest = host::digest::sha256(folder.root().as_os_str().as_encoded_bytes());
    for base in bases {
        // another user cannot have guessed the second name
        let predictable = base.join(parent_name());
        let unpredictable = base.join(format!("{}-{:032x}", parent_name(), host::random::random_u128()));
        for dir in [predictable, unpredictable]
            .map(|parent| parent.join(&digest[..DIGEST_DIGITS]))
            .iter()
            .filter(|dir| fits(dir))
        {
            match create(base, dir, folder.root()) {
                Ok(()) => {
                    symlink(dir, &run)?;
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

/// Creates the folder of a unit's socket and its parent in `base`, for this user alone.
fn create(base: &Path, dir: &Path, unit: &Path) -> io::Result<()> {
    if !is_safe(base) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users may replace folders in it"));
    }
    private_dir(dir.parent().unwrap_or(base))?;
    private_dir(dir)?;
    link_unit(dir, unit)
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
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

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
        let refused = create(&base, &base.join("pintle-0/unit"), dir.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    /// 1. A user logs in, runs `pintle up`, which outlives the session, and logs out.
    /// 2. The folder that `XDG_RUNTIME_DIR` names is deleted with the session.
    #[test]
    fn a_socket_folder_outlives_the_session_of_its_user() {
        const THIS: &str = "socket_dir::tests::a_socket_folder_outlives_the_session_of_its_user";
        const UNIT: &str = "PINTLE_TEST_UNIT_FOLDER";
        if let Some(unit) = std::env::var_os(UNIT) {
            socket_dir(&UnitFolder::new(unit.into())).unwrap();
            return;
        }
        let (dir, _, _) = fixture();
        let (folder, session) = (deep(dir.path()), dir.path().join("session"));
        private_dir(&session).unwrap();
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args([THIS, "--exact"]).env(UNIT, folder.root()).env("XDG_RUNTIME_DIR", &session);
        assert!(again.output().unwrap().status.success());
        let chosen = existing(&folder);
        remove(&folder).unwrap();
        assert!(!chosen.exists());
        assert!(chosen != folder.file(SOCKET_DIR) && !chosen.starts_with(&session), "{}", chosen.display());
    }

    #[test]
    fn removing_a_socket_folder_creates_none_and_leaves_that_of_another_owner() {
        let (dir, _, base) = fixture();
        let folder = deep(dir.path());
        let (max, bases) = (limit(&base), std::slice::from_ref(&base));
        // another user has taken the first name
        fs::write(base.join(parent_name()), "").unwrap();
        let chosen = choose(&folder, bases, max).unwrap();
        remove_of(&folder, bases).unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1, "its unpredictable parent is removed with it");
        remove_of(&folder, bases).unwrap();
        assert_eq!(existing(&folder), chosen, "the choice stays until the unit's folder is deleted");
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
        create(&base, &chosen, folder.root()).unwrap();
        fs::set_permissions(&chosen, fs::Permissions::from_mode(0o755)).unwrap();
        remove_of(&folder, bases).unwrap();
        assert!(chosen.exists(), "others may enter it");
    }

    /// A hook replaces `run` by a link: to a private folder of its user, or to the socket folder of another unit.
    #[test]
    fn a_private_folder_that_was_not_made_for_the_unit_is_neither_used_nor_removed() {
        let (dir, folder, base) = fixture();
        let (max, bases) = (limit(&base), std::slice::from_ref(&base));
        let other = choose(&deep(dir.path()), bases, max).expect("a folder");
        let precious = dir.path().join("precious");
        // has the form of a socket folder, and is not in a base
        let similar = dir.path().join(parent_name()).join("000000000000");
        private_dir(&precious).expect("created");
        create(dir.path(), &similar, folder.root()).expect("created");
        for target in [&precious, &similar, &other] {
            let named = fs::read_link(target.join(UNIT_LINK)).ok();
            symlink(target, folder.file(SOCKET_DIR)).expect("linked");
            remove_of(&folder, bases).expect("nothing fails");
            assert!(target.exists(), "{}", target.display());
            assert_eq!(elsewhere(&folder, bases), None, "the link in it is not replaced");
            assert_eq!(choose(&folder, bases, max).expect("a folder"), folder.file(SOCKET_DIR));
            assert_eq!(fs::read_link(target.join(UNIT_LINK)).ok(), named);
            remove_of(&folder, bases).expect("it is private");
        }
    }

    #[test]
    fn a_unit_that_was_moved_keeps_its_socket_folder() {
        let (dir, _, base) = fixture();
        let (max, bases) = (limit(&base), std::slice::from_ref(&base));
        let before = deep(dir.path());
        let chosen = choose(&before, bases, max).expect("a folder");
        let moved = UnitFolder::new(before.root().with_file_name("unit-web-1"));
        fs::rename(before.root(), moved.root()).expect("it is ours");
        assert_eq!(elsewhere(&moved, bases), Some(chosen.clone()));
        remove_of(&moved, bases).expect("it is ours");
        assert!(!chosen.exists());
    }

    #[test]
    fn a_folder_whose_unit_was_deleted_is_removed_unless_its_socket_is_used() {
        let (dir, _, base) = fixture();
        let max = limit(&base);
        let units = ["deleted", "used", "kept"].map(|name| deep(&dir.path().join(name)));
        let chosen =
            units.each_ref().map(|unit| choose(unit, std::slice::from_ref(&base), max).expect("a folder"));
        let [deleted, used, kept] = &chosen;
        drop(UnixListener::bind(deleted.join(SOCKET)).expect("it is free"));
        let _listener = UnixListener::bind(used.join(SOCKET)).expect("it is free");
        // without its link it may belong to an agent that is starting
        let unnamed = deleted.with_file_name("000000000000");
        private_dir(&unnamed).expect("created");
        for unit in &units[..2] {
            fs::remove_dir_all(unit.root()).expect("it is ours");
        }
        remove_abandoned_in(&base);
        assert_eq!([deleted, used, kept, &unnamed].map(|dir| dir.exists()), [false, true, true, true]);
        // the unit's disk is mounted again
        fs::create_dir_all(units[0].root()).expect("it is ours");
        assert_eq!(&choose(&units[0], std::slice::from_ref(&base), max).expect("a folder"), deleted);
        let emptied = base.join(format!("{}-{:032x}", parent_name(), 0));
        private_dir(&emptied).expect("created");
        remove_abandoned_in(&base);
        assert!(!emptied.exists() && base.join(parent_name()).exists());
    }
}
