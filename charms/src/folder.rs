//! A charm's source folder as a sorted list of what goes into its archive.

use crate::names::{self, Kind};
use crate::problem::Problem;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Disk(PathBuf),
    /// Written by us: the files charmcraft.yaml is split into, a dispatch script.
    Bytes(Vec<u8>),
}

/// One file or link of the future archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File { content: Content, executable: bool },
    Link(String),
}

/// All of a charm by path. Folders are implied; empty ones are left out.
pub type Files = BTreeMap<String, Entry>;

/// Never part of a charm, wherever they lie.
const SKIPPED: [&str; 5] = [".git", ".bzr", ".tox", ".venv", "__pycache__"];

/// Lists the folder: without `.git`, other charms' archives, the top level's `build` and what Python leaves behind;
/// without links that lead nowhere (each is noted). A `venv` that a developer made for their own use is left out too:
/// it works only where it was made.
pub fn list(root: &Path, notes: &mut Vec<String>) -> Result<Files, Vec<Problem>> {
    let (mut files, mut problems) = (Files::new(), Vec::new());
    let mut walk = Walk { root, files: &mut files, problems: &mut problems, notes };
    if let Err(error) = walk.folder("") {
        problems.push(Problem::new(&root.display().to_string(), "", format!("cannot be read: {error}")));
    }
    let kinds: Vec<(&str, Kind)> = files.iter().map(|(path, entry)| (path.as_str(), entry.kind())).collect();
    let unsafe_names = names::check_all(kinds.iter().map(|(path, kind)| (*path, kind)));
    problems.extend(unsafe_names.into_iter().map(|(path, text)| Problem::new(&path, "", text)));
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

impl Entry {
    fn kind(&self) -> Kind {
        match self {
            Entry::File { executable, .. } => Kind::File { executable: *executable },
            Entry::Link(target) => Kind::Link(target.clone()),
        }
    }

    /// A file written by us.
    pub fn written(bytes: impl Into<Vec<u8>>, executable: bool) -> Entry {
        Entry::File { content: Content::Bytes(bytes.into()), executable }
    }
}

impl Content {
    /// All bytes of the file.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Content::Disk(path) => fs::read(path),
            Content::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

struct Walk<'a> {
    root: &'a Path,
    files: &'a mut Files,
    problems: &'a mut Vec<Problem>,
    notes: &'a mut Vec<String>,
}

impl Walk<'_> {
    /// Adds what lies in the folder `prefix` (empty, or ending in a slash).
    fn folder(&mut self, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(prefix))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                let shown = entry.path().display().to_string();
                self.problems.push(Problem::new(&shown, "", "the name is not UTF-8"));
                continue;
            };
            let top = prefix.is_empty();
            if SKIPPED.contains(&name.as_str()) || name.ends_with(".charm") || (top && name == "build") {
                continue;
            }
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if top && name == "venv" && entry.path().join("pyvenv.cfg").exists() {
                    self.notes.push("venv: a developer's environment, left out".to_owned());
                } else {
                    self.folder(&format!("{path}/"))?;
                }
            } else if kind.is_symlink() {
                self.link(path, &entry.path())?;
            } else if kind.is_file() {
                let executable = entry.metadata()?.permissions().mode() & 0o100 != 0 || must_run(&path);
                let content = Content::Disk(entry.path());
                self.files.insert(path, Entry::File { content, executable });
            } else {
                self.problems.push(Problem::new(&path, "", "is neither a file nor a folder nor a link"));
            }
        }
        Ok(())
    }

    fn link(&mut self, path: String, on_disk: &Path) -> io::Result<()> {
        if fs::metadata(on_disk).is_err() {
            self.notes.push(format!("{path}: a link that leads nowhere, left out"));
            return Ok(());
        }
        match fs::read_link(on_disk)?.into_os_string().into_string() {
            Ok(target) => drop(self.files.insert(path, Entry::Link(target))),
            Err(_) => self.problems.push(Problem::new(&path, "", "the link's target is not UTF-8")),
        }
        Ok(())
    }
}

/// Files that are run get their execute bit, however the charm arrived (spec/clients.md 4.1).
pub fn must_run(path: &str) -> bool {
    let directly_in = |folder: &str| path.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
    path == "dispatch" || directly_in("hooks/") || directly_in("actions/")
}
