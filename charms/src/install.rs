//! A revision of a charm into a unit's folder, whole or not at all.
//!
//! Beside the folder `charm` there are, at times: `charm.new-<digest>`, a revision not yet or no longer used, and
//! `charm.manifest-<digest>`, what belongs to that revision. Inside it, `.juju-charm` says which revision this is.
//! The order, and what a crash leaves (spec/uniter.md B.4, invariant I50):
//!
//! 1. leftovers are removed, the archive is unpacked to `charm.new-…`; crash: `charm` is untouched, begin again;
//! 2. its manifest is written and the files that the charm itself wrote are linked over; crash: as before, for a
//!    link takes nothing away from `charm`;
//! 3. everything is synced;
//! 4. `charm` and `charm.new-…` change places in one rename; crash: one or the other is there, whole;
//! 5. what is now `charm.new-…` is removed; crash: it is removed by the next call.

use crate::unpack::{self, Managed, Manifest, UnpackError};
use host::digest;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file inside the folder that says which revision it is: the archive's sha256 and the revision's number.
const IDENTITY: &str = ".juju-charm";
/// The file with the revision's number that some charms read (spec/charms.md, lesson 4).
const REVISION: &str = "revision";
/// What is appended to the name of a charm's own file that a new revision brings too.
const SET_ASIDE: &str = "juju-orig";

/// What an installation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// False when this revision was there already.
    pub swapped: bool,
    /// Files of the charm's own that the new revision brings too: now `<name>.juju-orig`. To be logged.
    pub set_aside: Vec<String>,
}

/// Why a revision is not installed; what was there before still is.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error("cannot install the charm in {}: {source}", .folder.display())]
    Io { folder: PathBuf, source: io::Error },
}

/// Where an installation may be cut off; tests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Unpacked,
    ManifestWritten,
    CarriedOver,
    Synced,
    Swapped,
    OldRemoved,
}

/// Makes `charm_dir` (a unit's `charm`, in a folder that exists) the revision `revision` with the content of
/// `archive`. Files the charm itself wrote there are kept. Called again after a crash it finishes; called again after
/// success it does nothing. No hook may run meanwhile.
pub fn install(
    archive: &[u8],
    sha256: &str,
    charm_dir: &Path,
    revision: u32,
) -> Result<Installed, InstallError> {
    let installed = install_until(archive, sha256, charm_dir, revision, &mut |_| Ok(()));
    if installed.is_err() {
        // A disk that is full stays full otherwise; a crash leaves this to the next call.
        let _ = clean(charm_dir, None);
    }
    installed
}

fn install_until(
    archive: &[u8],
    sha256: &str,
    charm_dir: &Path,
    revision: u32,
    reached: &mut dyn FnMut(Step) -> io::Result<()>,
) -> Result<Installed, InstallError> {
    let identity = format!("{sha256} {revision}\n");
    let named = |source: io::Error| InstallError::Io { folder: charm_dir.to_owned(), source };
    let beside =
        charm_dir.parent().ok_or_else(|| named(io::Error::other("the charm needs a folder around it")))?;
    if fs::read_to_string(charm_dir.join(IDENTITY)).is_ok_and(|found| found == identity) {
        clean(charm_dir, Some(sha256)).map_err(named)?;
        return Ok(Installed::default());
    }
    clean(charm_dir, None).map_err(named)?;
    let new = sibling(charm_dir, "new", sha256);
    let mut manifest = unpack::unpack(archive, sha256, &new)?;
    let finish = || -> io::Result<Installed> {
        for (name, text) in [(IDENTITY, identity), (REVISION, format!("{revision}\n"))] {
            manifest.remove(name);
            let _ = fs::remove_file(new.join(name));
            fs::write(new.join(name), text)?;
        }
        compile(&new);
        reached(Step::Unpacked)?;
        let old = current_manifest(charm_dir);
        // The same content under another number: the manifest in use is not touched, a crash could tear it.
        let (manifest_file, text) = (sibling(charm_dir, "manifest", sha256), write_manifest(&manifest));
        if fs::read_to_string(&manifest_file).ok().as_ref() != Some(&text) {
            fs::write(&manifest_file, text)?;
        }
        reached(Step::ManifestWritten)?;
        let set_aside = if charm_dir.exists() {
            Carry { old_root: charm_dir, new_root: &new, old, new: &manifest, set_aside: Vec::new() }.all()?
        } else {
            Vec::new()
        };
        reached(Step::CarriedOver)?;
        // One call for a few thousand small files; a sync of each would take a disk seek of each.
        let folder = File::open(beside)?;
        nix::unistd::syncfs(&folder)?;
        reached(Step::Synced)?;
        let flags =
            if charm_dir.exists() { RenameFlags::RENAME_EXCHANGE } else { RenameFlags::RENAME_NOREPLACE };
        renameat2(AT_FDCWD, &new, AT_FDCWD, charm_dir, flags)?;
        folder.sync_all()?;
        reached(Step::Swapped)?;
        // The new revision is in place: an old one that cannot be removed now is removed by the next installation.
        let _ = clean(charm_dir, Some(sha256));
        reached(Step::OldRemoved)?;
        Ok(Installed { swapped: true, set_aside })
    };
    finish().map_err(named)
}

/// The paths of `charm_dir` that are not as the installed revision brought them, for a check at start
/// (spec/uniter.md A.5). None when it is not known what was installed.
pub fn verify(charm_dir: &Path) -> Option<Vec<String>> {
    let differs = |path: &str, managed: &Managed| match managed {
        Managed::Link(target) => fs::read_link(charm_dir.join(path)).ok() != Some(PathBuf::from(target)),
        Managed::File(sha256) => {
            let on_disk = charm_dir.join(path);
            let plain = fs::symlink_metadata(&on_disk).is_ok_and(|found| found.is_file());
            !plain || File::open(on_disk).and_then(digest::sha256_of).ok().as_ref() != Some(sha256)
        }
    };
    let manifest = current_manifest(charm_dir)?;
    Some(
        manifest
            .iter()
            .filter(|(path, managed)| differs(path, managed))
            .map(|(path, _)| path.clone())
            .collect(),
    )
}

/// `charm.new-0123456789abcdef`.
fn sibling(charm_dir: &Path, what: &str, sha256: &str) -> PathBuf {
    let mut name = charm_dir.file_name().map_or_else(|| OsString::from("charm"), OsString::from);
    name.push(format!(".{what}-{}", sha256.get(..16).unwrap_or(sha256)));
    charm_dir.with_file_name(name)
}

/// Removes what an earlier installation left beside the folder, and all manifests but that of the revision in use
/// (`None`: of the one that is in the folder).
fn clean(charm_dir: &Path, in_use: Option<&str>) -> io::Result<()> {
    let keep = in_use.map(str::to_owned).or_else(|| current_digest(charm_dir));
    let keep = keep.map(|sha256| sibling(charm_dir, "manifest", &sha256));
    let name = charm_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (news, manifests) = (format!("{name}.new-"), format!("{name}.manifest-"));
    for entry in fs::read_dir(charm_dir.parent().unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&news) {
            fs::remove_dir_all(&path)?;
        } else if name.starts_with(&manifests) && Some(&path) != keep.as_ref() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn current_digest(charm_dir: &Path) -> Option<String> {
    let identity = fs::read_to_string(charm_dir.join(IDENTITY)).ok()?;
    identity.split(' ').next().map(str::to_owned)
}

fn current_manifest(charm_dir: &Path) -> Option<Manifest> {
    let sha256 = current_digest(charm_dir)?;
    Some(read_manifest(&fs::read_to_string(sibling(charm_dir, "manifest", &sha256)).ok()?))
}

/// One line for each file, in the form that `sha256sum -c` takes; links with their target instead.
fn write_manifest(manifest: &Manifest) -> String {
    let line = |(path, managed): (&String, &Managed)| match managed {
        Managed::File(sha256) => format!("{sha256}  {path}\n"),
        Managed::Link(target) => format!("#link {path}\t{target}\n"),
    };
    manifest.iter().map(line).collect()
}

/// The reverse. Paths hold no control characters (`names`), so a line is a member.
fn read_manifest(text: &str) -> Manifest {
    let member = |line: &str| match line.strip_prefix("#link ") {
        Some(link) => {
            link.split_once('\t').map(|(path, target)| (path.to_owned(), Managed::Link(target.to_owned())))
        }
        None => {
            line.split_once("  ").map(|(sha256, path)| (path.to_owned(), Managed::File(sha256.to_owned())))
        }
    };
    text.lines().filter_map(member).collect()
}

/// Compiles the Python of a charm that brings its packages, so that the first hook does not have to. Only a saving
/// of time: whatever goes wrong, Python compiles for itself.
fn compile(charm: &Path) {
    if charm.join("venv").is_dir() {
        let mut python = Command::new("python3");
        python.args(["-m", "compileall", "-q", "venv", "lib", "src"]).current_dir(charm);
        let _ = python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Links what the charm itself wrote in the old folder into the new one.
struct Carry<'a> {
    old_root: &'a Path,
    new_root: &'a Path,
    /// What the old revision brought; none when that is not known any more.
    old: Option<Manifest>,
    new: &'a Manifest,
    set_aside: Vec<String>,
}

impl Carry<'_> {
    fn all(mut self) -> io::Result<Vec<String>> {
        let folders: BTreeSet<String> =
            self.old.iter().flatten().flat_map(|(path, _)| parents(path)).collect();
        self.folder("", &folders)?;
        Ok(self.set_aside)
    }

    /// `prefix` is empty or ends in a slash; `managed` are the folders the old revision brought.
    fn folder(&mut self, prefix: &str, managed: &BTreeSet<String>) -> io::Result<()> {
        for entry in fs::read_dir(self.old_root.join(prefix))? {
            let entry = entry?;
            // A name that is not UTF-8 was written by the charm, which can only lose it here: said, not hidden.
            let Ok(name) = entry.file_name().into_string() else {
                let text = format!("{} has a name that is not UTF-8: rename it", entry.path().display());
                return Err(io::Error::other(text));
            };
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                // Python's cache is made anew, and compares times that a new revision may repeat.
                if name == "__pycache__" {
                    continue;
                }
                if !managed.contains(&path) {
                    let to = self.place(&path, true)?;
                    if !to.is_dir() {
                        fs::create_dir(&to)?;
                        fs::set_permissions(&to, entry.metadata()?.permissions())?;
                    }
                }
                self.folder(&format!("{path}/"), managed)?;
            } else if !self.is_managed(&path) {
                let to = self.place(&path, false)?;
                fs::hard_link(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop))?;
            }
        }
        Ok(())
    }

    fn is_managed(&self, path: &str) -> bool {
        if path == IDENTITY || path == REVISION {
            return true;
        }
        match &self.old {
            Some(old) => old.contains_key(path),
            // Not known what was ours: what the new revision brings is taken for ours.
            None => self.new.contains_key(path),
        }
    }

    /// Where an own file or folder goes in the new revision: at its path, unless the revision has something else
    /// there or on the way; then beside that, with a name of its own.
    fn place(&mut self, path: &str, is_folder: bool) -> io::Result<PathBuf> {
        let mut place = self.new_root.to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            let inner = index + 1 < parts.len();
            let next = place.join(part);
            place = match fs::symlink_metadata(&next) {
                Err(_) => next,
                Ok(found) if found.is_dir() && (inner || is_folder) => next,
                Ok(_) => {
                    let aside = place.join(format!("{part}.{SET_ASIDE}"));
                    if !inner {
                        self.set_aside.push(path.to_owned());
                        if !is_folder {
                            let _ = fs::remove_file(&aside);
                        }
                    }
                    aside
                }
            };
            if inner && fs::symlink_metadata(&place).is_err() {
                fs::create_dir(&place)?;
            }
        }
        Ok(place)
    }
}

/// The folders a path lies in.
fn parents(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect()
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
