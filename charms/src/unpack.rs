//! Unpacks an archive into a new folder (spec/security.md S21 to S24).
//!
//! No byte of the archive is interpreted before its digest is verified, and nothing is created outside the folder,
//! whatever the archive contains: the names are checked first (`safe_paths`), which is the only guard of folders and of the
//! places of links; there are no links until all folders and files exist; and the kernel refuses a file whose path leaves the
//! folder, and then a link that points outside. Called by `install`.

use crate::archive_entries::{self, Member, ZipReader};
use crate::folder::is_executable;
use crate::problem::Problem;
use crate::safe_paths::MemberKind;
use host::digest;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, mkdirat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The expected content of one path of an unpacked charm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestEntry {
    /// The sha256 of a file's content.
    File(String),
    /// A link's target.
    Link(String),
}

/// Every file and link of an unpacked charm, by path.
pub type Manifest = BTreeMap<String, ManifestEntry>;

/// Why an archive was not unpacked. The target folder is removed again, if it can be.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive is not the one that was announced.
    #[error("charm archive corrupted: expected sha256 {expected}, got {found}")]
    Digest {
        /// The sha256 that the caller passed.
        expected: String,
        /// The sha256 of the bytes.
        found: String,
    },
    /// Members of the archive are unsafe or contradict its headers.
    #[error("cannot unpack the charm: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unsafe(Vec<Problem>),
    /// The folder cannot be written, or a member cannot be read.
    #[error("cannot unpack the charm: {0}")]
    Io(#[from] io::Error),
}

/// Unpacks `archive`, whose digest must be `sha256`, into the folder `target` and returns the manifest of the content.
///
/// `target` must not exist; if unpacking fails, it is removed again, if it can be. Files have the modes of the
/// archive, without the permission to write for others. Nothing is synced: the caller syncs before it makes the folder
/// visible.
///
/// # Errors
/// See [`UnpackError`].
pub fn unpack(archive: &[u8], sha256: &str, target: &Path) -> Result<Manifest, UnpackError> {
    let found = digest::sha256(archive);
    if found != sha256 {
        return Err(UnpackError::Digest { expected: sha256.to_owned(), found });
    }
    let (mut zip, members) = archive_entries::list("charm archive", archive).map_err(UnpackError::Unsafe)?;
    fs::create_dir(target)?;
    fs::set_permissions(target, fs::Permissions::from_mode(FOLDER_MODE))?;
    let unpacked = extract(target, &mut zip, &members);
    if unpacked.is_err() {
        fs::remove_dir_all(target)?;
    }
    unpacked
}

/// The mode of the charm's folders.
const FOLDER_MODE: u32 = 0o755;

fn extract(target: &Path, zip: &mut ZipReader, members: &[Member]) -> Result<Manifest, UnpackError> {
    let root: OwnedFd = File::open(target)?.into();
    for folder in folders(members) {
        mkdirat(&root, folder.as_str(), Mode::from_bits_truncate(FOLDER_MODE)).map_err(io::Error::from)?;
        // The umask of the process may have cleared bits, and a service of the charm may run as another user. There are
        // no links yet.
        fs::set_permissions(target.join(&folder), fs::Permissions::from_mode(FOLDER_MODE))?;
    }
    let mut manifest = Manifest::new();
    for member in members {
        if matches!(member.kind, MemberKind::File { .. }) {
            let mode = if is_executable(&member.path) { 0o755 } else { member.mode };
            let mut out = create(&root, &member.path, mode)?;
            let mut source = zip.by_index(member.index).map_err(io::Error::from)?.take(member.size + 1);
            let written = io::copy(&mut source, &mut out)?;
            // `archive_entries` has bounded the sum of the declared sizes; this holds each member to its declared size.
            if written != member.size {
                let text = "is not as long as its header declares";
                return Err(UnpackError::Unsafe(vec![Problem::new("charm archive", &member.path, text)]));
            }
            let digest = digest::sha256_of(File::open(target.join(&member.path))?)?;
            manifest.insert(member.path.clone(), ManifestEntry::File(digest));
        }
    }
    // Links are created last, so that nothing is written through a link. Then the kernel resolves each of them and
    // confirms that it stays inside.
    for member in members {
        if let MemberKind::Link(link) = &member.kind {
            nix::unistd::symlinkat(link.as_str(), &root, member.path.as_str()).map_err(io::Error::from)?;
            manifest.insert(member.path.clone(), ManifestEntry::Link(link.clone()));
        }
    }
    for member in members.iter().filter(|member| matches!(member.kind, MemberKind::Link(_))) {
        let how =
            OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_BENEATH);
        if matches!(openat2(&root, member.path.as_str(), how), Err(Errno::EXDEV)) {
            let text = "is a link that points outside the charm";
            return Err(UnpackError::Unsafe(vec![Problem::new("charm archive", &member.path, text)]));
        }
    }
    Ok(manifest)
}

/// All folders of all members, each after its parent.
fn folders(members: &[Member]) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for member in members {
        folders.extend(member.path.match_indices('/').map(|(end, _)| member.path[..end].to_owned()));
        if member.kind == MemberKind::Folder {
            folders.insert(member.path.clone());
        }
    }
    folders
}

/// Creates a file below `root`. The kernel refuses a path that passes through a link or leaves `root`.
fn create(root: &OwnedFd, path: &str, mode: u32) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC)
        .mode(Mode::from_bits_truncate(mode))
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        );
    let file = File::from(openat2(root, path, how)?);
    // The umask of the process may have cleared bits that a hook needs.
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    Ok(file)
}
