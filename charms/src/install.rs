//! Installs a revision of a charm in a unit's folder, completely or not at all (spec/uniter.md B.4, invariant I50).
//!
//! Files that the charm itself wrote are kept. Called by the unit agent between hooks; the same call after a crash
//! finishes the installation.
//!
//! Two more names exist beside the folder `charm`: `charm.new-<digest>` is a revision that is not yet, or no longer, in
//! use, and `charm.manifest-<digest>` lists the content of a revision. The file `.juju-charm` in a revision identifies
//! it. The steps, and the state after a crash in each of them:
//!
//! 1. Leftovers are removed and the archive is unpacked to `charm.new-…`. Crash: `charm` is unchanged; start again.
//! 2. The manifest is written, and the files that the charm itself wrote are hard-linked into `charm.new-…`. Crash: as
//!    in step 1, because a link does not change `charm`.
//! 3. Everything is synced.
//! 4. One rename exchanges `charm` and `charm.new-…`. Crash: `charm` is the old or the new revision, complete.
//! 5. The old revision, now `charm.new-…`, is removed. Crash: the next call removes it.

use crate::unpack::{self, Manifest, ManifestEntry, UnpackError};
use host::digest;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file in the charm's folder that identifies the revision: the sha256 of the archive and the revision number.
const IDENTITY: &str = ".juju-charm";
/// The file with the revision number, which some charms read (spec/charms.md, lesson 4).
const REVISION: &str = "revision";
/// The suffix for a file of the charm's own whose name the new revision uses.
const RENAMED_SUFFIX: &str = "juju-orig";

/// The result of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// False if this revision was already installed, and no file of it was missing.
    pub was_swapped: bool,
    /// Paths that the charm itself wrote and that the new revision also contains. The charm's own files are now
    /// `<path>.juju-orig`. The caller logs them.
    pub renamed_files: Vec<String>,
}

/// Why a revision was not installed. The earlier revision is still in place.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The unit's folder cannot be read or written.
    #[error("cannot install the charm in {}: {source}", .folder.display())]
    Io {
        /// The charm's folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A point of an installation at which tests simulate a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrashPoint {
    Unpacked,
    ManifestWritten,
    CarriedOver,
    Synced,
    Swapped,
    OldRemoved,
}

/// Installs `archive`, whose digest must be `sha256`, as revision number `revision` in `charm_dir`, the folder `charm`
/// of a unit. The parent of `charm_dir` must exist.
///
/// Files that the charm itself wrote in `charm_dir` are kept. A call after a crash finishes the installation; a call
/// after a success does nothing, unless files of the revision were deleted since then. The caller guarantees that no hook runs meanwhile.
///
/// # Errors
/// See [`InstallError`].
pub fn install(
    archive: &[u8],
    sha256: &str,
    charm_dir: &Path,
    revision: u32,
) -> Result<Installed, InstallError> {
    let installed = install_until(archive, sha256, charm_dir, revision, &mut |_| Ok(()));
    if installed.is_err() {
        // Otherwise a full disk would stay full. After a crash the next call removes the leftovers.
        let _ = clean(charm_dir, None);
    }
    installed
}

fn install_until(
    archive: &[u8],
    sha256: &str,
    charm_dir: &Path,
    revision: u32,
    reached: &mut dyn FnMut(CrashPoint) -> io::Result<()>,
) -> Result<Installed, InstallError> {
    let identity = format!("{sha256} {revision}\n");
    let io_error = |source: io::Error| InstallError::Io { folder: charm_dir.to_owned(), source };
    let unit_dir =
        charm_dir.parent().ok_or_else(|| io_error(io::Error::other("the folder has no parent folder")))?;
    let is_same = fs::read_to_string(charm_dir.join(IDENTITY)).is_ok_and(|found| found == identity);
    let is_missing = |path: &String| fs::symlink_metadata(charm_dir.join(path)).is_err();
    if is_same && !unpacked_files(charm_dir).iter().any(is_missing) {
        clean(charm_dir, Some(sha256)).map_err(io_error)?;
        return Ok(Installed::default());
    }
    clean(charm_dir, None).map_err(io_error)?;
    let new = sibling_path(charm_dir, "new", sha256);
    let mut manifest = unpack::unpack(archive, sha256, &new)?;
    let finish = || -> io::Result<Installed> {
        for (name, text) in [(IDENTITY, identity), (REVISION, format!("{revision}\n"))] {
            manifest.remove(name);
            let _ = fs::remove_file(new.join(name));
            fs::write(new.join(name), text)?;
            fs::set_permissions(new.join(name), fs::Permissions::from_mode(0o644))?;
        }
        compile(&new);
        reached(CrashPoint::Unpacked)?;
        let old = current_manifest(charm_dir);
        // The same content under another revision number has the same manifest file. It is in use, so it is not written
        // again: a crash could tear it.
        let (manifest_file, text) = (sibling_path(charm_dir, "manifest", sha256), write_manifest(&manifest));
        if fs::read_to_string(&manifest_file).ok().as_ref() != Some(&text) {
            fs::write(&manifest_file, text)?;
        }
        reached(CrashPoint::ManifestWritten)?;
        let renamed_files = if charm_dir.exists() {
            CarryOver { old_root: charm_dir, new_root: &new, old, new: &manifest, renamed_files: Vec::new() }
                .all()?
        } else {
            Vec::new()
        };
        reached(CrashPoint::CarriedOver)?;
        // One call syncs a few thousand small files. Syncing each of them would cost a disk seek per file.
        let folder = File::open(unit_dir)?;
        nix::unistd::syncfs(&folder)?;
        reached(CrashPoint::Synced)?;
        let flags =
            if charm_dir.exists() { RenameFlags::RENAME_EXCHANGE } else { RenameFlags::RENAME_NOREPLACE };
        renameat2(AT_FDCWD, &new, AT_FDCWD, charm_dir, flags)?;
        folder.sync_all()?;
        reached(CrashPoint::Swapped)?;
        // The new revision is in place. If the old one cannot be removed now, the next installation removes it.
        let _ = clean(charm_dir, Some(sha256));
        reached(CrashPoint::OldRemoved)?;
        Ok(Installed { was_swapped: true, renamed_files })
    };
    finish().map_err(io_error)
}

/// Returns the paths in `charm_dir` whose content differs from the installed revision (spec/uniter.md A.5); `None` if
/// the installed revision is unknown. The unit agent calls it before it fetches a charm, which may be installed
/// already.
pub fn verify(charm_dir: &Path) -> Option<Vec<String>> {
    let differs = |path: &str, managed: &ManifestEntry| match managed {
        ManifestEntry::Link(target) => {
            fs::read_link(charm_dir.join(path)).ok() != Some(PathBuf::from(target))
        }
        ManifestEntry::File(sha256) => {
            let on_disk = charm_dir.join(path);
            let is_file = fs::symlink_metadata(&on_disk).is_ok_and(|found| found.is_file());
            !is_file || File::open(on_disk).and_then(digest::sha256_of).ok().as_ref() != Some(sha256)
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

/// The paths of the files and links of the installed revision, whether or not they still exist; none if the revision is
/// unknown. Two files that [`install`] writes itself are not among them.
pub fn unpacked_files(charm_dir: &Path) -> Vec<String> {
    current_manifest(charm_dir).into_iter().flat_map(Manifest::into_keys).collect()
}

/// The path beside the charm's folder for `what` of a revision, for example `charm.new-0123456789abcdef`.
fn sibling_path(charm_dir: &Path, what: &str, sha256: &str) -> PathBuf {
    let mut name = charm_dir.file_name().map_or_else(|| OsString::from("charm"), OsString::from);
    name.push(format!(".{what}-{}", sha256.get(..16).unwrap_or(sha256)));
    charm_dir.with_file_name(name)
}

/// Removes the leftovers of earlier installations, and all manifests except that of the revision `in_use`. `None` means
/// the revision in `charm_dir`.
fn clean(charm_dir: &Path, in_use: Option<&str>) -> io::Result<()> {
    let digest_in_use = in_use.map(str::to_owned).or_else(|| current_digest(charm_dir));
    let manifest_in_use = digest_in_use.map(|sha256| sibling_path(charm_dir, "manifest", &sha256));
    let name = charm_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (new_prefix, manifest_prefix) = (format!("{name}.new-"), format!("{name}.manifest-"));
    for entry in fs::read_dir(charm_dir.parent().unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&new_prefix) {
            fs::remove_dir_all(&path)?;
        } else if name.starts_with(&manifest_prefix) && Some(&path) != manifest_in_use.as_ref() {
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
    Some(read_manifest(&fs::read_to_string(sibling_path(charm_dir, "manifest", &sha256)).ok()?))
}

/// Writes one line for each file, in the format of `sha256sum -c`, and one for each link with its target.
fn write_manifest(manifest: &Manifest) -> String {
    let line = |(path, managed): (&String, &ManifestEntry)| match managed {
        ManifestEntry::File(sha256) => format!("{sha256}  {path}\n"),
        ManifestEntry::Link(target) => format!("#link {path}\t{target}\n"),
    };
    manifest.iter().map(line).collect()
}

/// Reads what `write_manifest` wrote. Each line is one member, because `safe_paths` refuses control characters in
/// paths.
fn read_manifest(text: &str) -> Manifest {
    let member = |line: &str| match line.strip_prefix("#link ") {
        Some(link) => link
            .split_once('\t')
            .map(|(path, target)| (path.to_owned(), ManifestEntry::Link(target.to_owned()))),
        None => line
            .split_once("  ")
            .map(|(sha256, path)| (path.to_owned(), ManifestEntry::File(sha256.to_owned()))),
    };
    text.lines().filter_map(member).collect()
}

/// Compiles the Python files of a charm that contains its packages, so that the first hook starts faster. Failures are
/// ignored, because Python compiles the remaining files when it imports them.
fn compile(charm: &Path) {
    if charm.join("venv").is_dir() {
        let mut python = Command::new("python3");
        python.args(["-m", "compileall", "-q", "venv", "lib", "src"]).current_dir(charm);
        let _ = python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Links the files that the charm itself wrote in the old folder into the new one.
struct CarryOver<'a> {
    old_root: &'a Path,
    new_root: &'a Path,
    /// The manifest of the old revision; `None` if it is unknown.
    old: Option<Manifest>,
    new: &'a Manifest,
    renamed_files: Vec<String>,
}

impl CarryOver<'_> {
    fn all(mut self) -> io::Result<Vec<String>> {
        let folders: BTreeSet<String> =
            self.old.iter().flatten().flat_map(|(path, _)| parents(path)).collect();
        self.folder("", &folders)?;
        Ok(self.renamed_files)
    }

    /// Links the content of the folder `prefix`, which is empty or ends in a slash. `managed` are the folders of the
    /// old revision.
    fn folder(&mut self, prefix: &str, managed: &BTreeSet<String>) -> io::Result<()> {
        for entry in fs::read_dir(self.old_root.join(prefix))? {
            let entry = entry?;
            // The charm itself wrote a name that is not UTF-8. Its file would be lost, so the installation fails.
            let Ok(name) = entry.file_name().into_string() else {
                let text = format!("{} has a name that is not UTF-8: rename it", entry.path().display());
                return Err(io::Error::other(text));
            };
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                // Python caches compiled files by modification time, which a new revision may repeat.
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
            // The content of the old revision is unknown: assume that it contained the paths of the new one.
            None => self.new.contains_key(path),
        }
    }

    /// Returns the path in the new revision for a file or folder of the charm's own. If the new revision has something
    /// else at that path or at one of its parents, that part of the path gets the suffix `.juju-orig`.
    fn place(&mut self, path: &str, is_folder: bool) -> io::Result<PathBuf> {
        let mut place = self.new_root.to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            let is_parent = index + 1 < parts.len();
            let next = place.join(part);
            place = match fs::symlink_metadata(&next) {
                Err(_) => next,
                Ok(found) if found.is_dir() && (is_parent || is_folder) => next,
                Ok(_) => {
                    let renamed = place.join(format!("{part}.{RENAMED_SUFFIX}"));
                    if !is_parent {
                        self.renamed_files.push(path.to_owned());
                        if !is_folder {
                            let _ = fs::remove_file(&renamed);
                        }
                    }
                    renamed
                }
            };
            if is_parent && fs::symlink_metadata(&place).is_err() {
                fs::create_dir(&place)?;
                fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(place)
    }
}

/// All parent folders of a path.
fn parents(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect()
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
