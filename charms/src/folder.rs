//! Lists a charm's source folder: the sorted files, links and empty folders that its archive will contain.
//!
//! The list holds only names that `safe_paths` accepts, so that whatever can be packed can also be unpacked. Called by
//! `read` for the charm itself and by `venv` for installed Python packages.

use crate::ignore_rules::{self, IgnoreRules};
use crate::problem::Problem;
use crate::safe_paths::{self, MemberKind};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A file on disk.
    Disk(PathBuf),
    /// A file that packing generates: the files that charmcraft.yaml is split into, or a dispatch script.
    Bytes(Vec<u8>),
}

/// One file, link or empty folder of the future archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEntry {
    /// A regular file.
    File {
        /// Where its bytes come from.
        content: Content,
        /// Whether its execute bit is set.
        executable: bool,
    },
    /// A symbolic link with its target.
    Link(String),
    /// A folder without files and links. The others are implied.
    EmptyFolder,
}

/// All files, links and empty folders of a charm by path.
pub type CharmFileList = BTreeMap<String, FileEntry>;

/// Names that are never part of a charm, in any folder.
const SKIPPED: [&str; 8] =
    [".git", ".bzr", ".hg", ".svn", ".tox", ".venv", "__pycache__", ignore_rules::FILE];

/// Lists the folder `root`.
///
/// The list omits `SKIPPED` names, what `.jujuignore` excludes, `.charm` archives, a top-level `build` folder, broken links, and a top-level `venv`
/// that is a virtual environment, because such an environment works only where it was created. Each omitted link and
/// environment is reported in `notes`.
///
/// # Errors
/// Everything that cannot be read, or that has an unsafe name.
pub fn list(root: &Path, notes: &mut Vec<String>) -> Result<CharmFileList, Vec<Problem>> {
    let (mut files, mut problems) = (CharmFileList::new(), Vec::new());
    let rules = match read_rules(root) {
        Ok(rules) => rules,
        Err(text) => return Err(vec![Problem::new(ignore_rules::FILE, "", text)]),
    };
    let mut walk = Walk { root, rules, files: &mut files, problems: &mut problems, notes };
    if let Err(error) = walk.folder("") {
        problems.push(Problem::new(&root.display().to_string(), "", format!("cannot be read: {error}")));
    }
    let kinds: Vec<(&str, MemberKind)> =
        files.iter().map(|(path, entry)| (path.as_str(), entry.kind())).collect();
    let unsafe_names = safe_paths::check_all(kinds.iter().map(|(path, kind)| (*path, kind)));
    problems.extend(unsafe_names.into_iter().map(|(path, text)| Problem::new(&path, "", text)));
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

impl FileEntry {
    pub(crate) fn kind(&self) -> MemberKind {
        match self {
            FileEntry::File { executable, .. } => MemberKind::File { executable: *executable },
            FileEntry::Link(target) => MemberKind::Link(target.clone()),
            FileEntry::EmptyFolder => MemberKind::Folder,
        }
    }

    /// A generated file with this content.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, executable: bool) -> FileEntry {
        FileEntry::File { content: Content::Bytes(bytes.into()), executable }
    }
}

impl Content {
    /// Reads all bytes of the file.
    ///
    /// # Errors
    /// The file no longer exists or cannot be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Content::Disk(path) => fs::read(path),
            Content::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

/// The rules of the charm; none without the file.
fn read_rules(root: &Path) -> Result<IgnoreRules, String> {
    let file = root.join(ignore_rules::FILE);
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(IgnoreRules::default()),
        Ok(found) if found.len() > ignore_rules::BYTES_MAX => return Err("is too large".to_owned()),
        Ok(_) | Err(_) => {}
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(IgnoreRules::parse(&text))
}

struct Walk<'a> {
    root: &'a Path,
    rules: IgnoreRules,
    files: &'a mut CharmFileList,
    problems: &'a mut Vec<Problem>,
    notes: &'a mut Vec<String>,
}

impl Walk<'_> {
    /// Adds the content of the folder `prefix`, which is empty or ends in a slash.
    fn folder(&mut self, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(prefix))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                let shown = entry.path().display().to_string();
                self.problems.push(Problem::new(&shown, "", "the name is not UTF-8"));
                continue;
            };
            let top = prefix.is_empty();
            if is_skipped(&name, top) {
                continue;
            }
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if self.rules.exclude(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                if top && name == "venv" && entry.path().join("pyvenv.cfg").exists() {
                    self.notes.push("venv: a virtual environment, omitted from the archive".to_owned());
                } else {
                    let inside = format!("{path}/");
                    self.folder(&inside)?;
                    let is_empty = !self
                        .files
                        .range(inside.clone()..)
                        .next()
                        .is_some_and(|(path, _)| path.starts_with(&inside));
                    if is_empty {
                        self.files.insert(path, FileEntry::EmptyFolder);
                    }
                }
            } else if kind.is_symlink() {
                self.link(path, &entry.path())?;
            } else if kind.is_file() {
                let executable = entry.metadata()?.permissions().mode() & 0o100 != 0 || is_executable(&path);
                let content = Content::Disk(entry.path());
                self.files.insert(path, FileEntry::File { content, executable });
            } else {
                self.problems.push(Problem::new(&path, "", "is not a file, folder or link"));
            }
        }
        Ok(())
    }

    fn link(&mut self, path: String, on_disk: &Path) -> io::Result<()> {
        if fs::metadata(on_disk).is_err() {
            self.notes.push(format!("{path}: a broken link, omitted from the archive"));
            return Ok(());
        }
        match fs::read_link(on_disk)?.into_os_string().into_string() {
            Ok(target) => drop(self.files.insert(path, FileEntry::Link(target))),
            Err(_) => self.problems.push(Problem::new(&path, "", "the link's target is not UTF-8")),
        }
        Ok(())
    }
}

/// Whether an entry of this name is never part of a charm; `top`: whether it is directly in the charm's folder.
fn is_skipped(name: &str, top: bool) -> bool {
    SKIPPED.contains(&name) || name.ends_with(".charm") || (top && name == "build")
}

/// Whether a file at this path, relative to the folder of a charm, can be part of its archive.
pub fn can_be_packed(path: &Path) -> bool {
    let names = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    !names.enumerate().any(|(depth, name)| is_skipped(&name, depth == 0))
}

/// Whether the file at `path` is run by the agent. Such files get their execute bit, however the charm was packed
/// (spec/clients.md 4.1).
pub fn is_executable(path: &str) -> bool {
    let is_directly_in = |folder: &str| path.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
    path == "dispatch" || is_directly_in("hooks/") || is_directly_in("actions/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_charm_exclude_files_and_empty_folders_are_kept() {
        let charm = tempfile::tempdir().expect("a folder");
        let root = charm.path();
        for folder in ["data/empty", "secret", "docs"] {
            fs::create_dir_all(root.join(folder)).expect("a new folder");
        }
        for file in ["metadata.yaml", "a.tmp", "keep.tmp", "secret/key", "docs/x.tmp", "data/a.tmp"] {
            fs::write(root.join(file), "").expect("written");
        }
        fs::write(root.join(".jujuignore"), "*.tmp\n!keep.tmp\n/secret/\n").expect("written");
        std::os::unix::fs::symlink("data/empty", root.join("link")).expect("a new link");
        let files = list(root, &mut Vec::new()).expect("it can be listed");
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["data/empty", "docs", "keep.tmp", "link", "metadata.yaml"]);
        assert_eq!(files["data/empty"], FileEntry::EmptyFolder);
    }
}
