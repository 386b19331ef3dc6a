//! Unpacking an archive into a fresh folder. Nothing is interpreted before the digest is right; nothing is created
//! outside the folder, whatever the archive says (spec/security.md S21 to S24).

use crate::folder::must_run;
use crate::members::{self, Archive, Member};
use crate::names::Kind;
use crate::problem::Problem;
use host::digest;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, mkdirat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What an unpacked file must be for the folder to be whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// The sha256 of a file's content.
    File(String),
    /// A link's target.
    Link(String),
}

/// Every file and link of a revision, by path.
pub type Manifest = BTreeMap<String, Managed>;

/// Why an archive was not unpacked; nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the charm archive is damaged: its sha256 is {found}, not {expected}")]
    Digest { expected: String, found: String },
    #[error("the charm archive is refused: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unsafe(Vec<Problem>),
    #[error("cannot unpack the charm: {0}")]
    Io(#[from] io::Error),
}

/// Unpacks `archive` into `target`, which must not exist and is removed again when anything fails. Modes become 0755
/// or 0644. Not synced yet: whoever makes it visible syncs.
pub fn unpack(archive: &[u8], sha256: &str, target: &Path) -> Result<Manifest, UnpackError> {
    let found = digest::sha256(archive);
    if found != sha256 {
        return Err(UnpackError::Digest { expected: sha256.to_owned(), found });
    }
    let (mut zip, members) = members::list("charm archive", archive).map_err(UnpackError::Unsafe)?;
    fs::create_dir(target)?;
    let unpacked = fill(target, &mut zip, &members);
    if unpacked.is_err() {
        fs::remove_dir_all(target)?;
    }
    unpacked
}

fn fill(target: &Path, zip: &mut Archive, members: &[Member]) -> Result<Manifest, UnpackError> {
    let root: OwnedFd = File::open(target)?.into();
    for folder in folders(members) {
        mkdirat(&root, folder.as_str(), Mode::from_bits_truncate(0o755)).map_err(io::Error::from)?;
    }
    let mut manifest = Manifest::new();
    for member in members {
        if let Kind::File { executable } = &member.kind {
            let mode = if *executable || must_run(&member.path) { 0o755 } else { 0o644 };
            let mut out = create(&root, &member.path, mode)?;
            let mut source = zip.by_index(member.index).map_err(io::Error::from)?.take(member.size + 1);
            let written = io::copy(&mut source, &mut out)?;
            // The sum of what members claim was checked; here each is held to its claim, as the library does too.
            if written != member.size {
                let text = "is not as long as it claims to be";
                return Err(UnpackError::Unsafe(vec![Problem::new("charm archive", &member.path, text)]));
            }
            let digest = digest::sha256_of(File::open(target.join(&member.path))?)?;
            manifest.insert(member.path.clone(), Managed::File(digest));
        }
    }
    // Links last, so that nothing is ever written through one; then the kernel is asked whether each stays inside.
    for member in members {
        if let Kind::Link(link) = &member.kind {
            nix::unistd::symlinkat(link.as_str(), &root, member.path.as_str()).map_err(io::Error::from)?;
            manifest.insert(member.path.clone(), Managed::Link(link.clone()));
        }
    }
    for member in members.iter().filter(|member| matches!(member.kind, Kind::Link(_))) {
        let how =
            OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_BENEATH);
        if matches!(openat2(&root, member.path.as_str(), how), Err(Errno::EXDEV)) {
            let text = "is a link that leads out of the charm";
            return Err(UnpackError::Unsafe(vec![Problem::new("charm archive", &member.path, text)]));
        }
    }
    Ok(manifest)
}

/// All folders of all members, each after the one it lies in.
fn folders(members: &[Member]) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for member in members {
        folders.extend(member.path.match_indices('/').map(|(end, _)| member.path[..end].to_owned()));
        if member.kind == Kind::Folder {
            folders.insert(member.path.clone());
        }
    }
    folders
}

/// A new file below `root`, whatever links there may be: the kernel refuses every way out.
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
    // The process's umask may have taken bits away that a hook needs.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    Ok(file)
}
