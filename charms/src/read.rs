//! Reads a charm from a folder or an archive.
//!
//! The result is what the charm declares together with the archive to upload, or every problem of the charm at once
//! (spec/clients.md 4.8). Nothing is created before the charm is free of problems. The CLI calls `read`; the controller
//! and the unit agent call `read_archive` for an archive that they have received.

use crate::archive::{self, UNPACKED_BYTES_MAX};
use crate::declaration::{self, FILE_BYTES_MAX, Layout, READ_FILES, Section, Sections, Texts};
use crate::folder::{self, CharmFileList, FileEntry};
use crate::host_python::host_python;
use crate::problem::{Checker, Problem};
use crate::safe_paths::MemberKind;
use crate::{archive_entries, charmcraft, git_version, venv, yaml};
use host::{digest, hardware};
use serde_json::Value;
use state::charm::Charm;
use std::fs;
use std::path::{Path, PathBuf};

/// A charm that is ready to be deployed.
#[derive(Debug)]
pub struct CharmSource {
    /// What the charm declares.
    pub charm: Charm,
    /// The bytes of the `.charm` archive.
    pub archive: Vec<u8>,
    /// The sha256 of the archive in lower-case hexadecimal.
    pub sha256: String,
    /// Warnings for the user: files that were omitted, packages that were installed, doubtful declarations.
    pub notes: Vec<String>,
}

/// How to read a charm.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// A private folder of this user that caches installed Python packages between deployments.
    pub cache: PathBuf,
    /// Accept a charm whose `assumes` are not met, that was packed for another architecture or Python version, or that
    /// has no code.
    pub force: bool,
}

/// The hosts of the machines on which a charm is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetHost {
    /// This host, at least for one machine.
    This,
    /// Other hosts alone: their architecture is not known.
    Other,
}

/// Reads the charm at `path`, which is a folder or a `.charm` archive.
///
/// # Errors
/// All problems of the charm.
pub fn read(path: &Path, options: &ReadOptions) -> Result<CharmSource, Vec<Problem>> {
    read_with_progress(path, options, &|_| {})
}

/// The name that the charm in a folder declares, without reading the rest of the charm; none for an archive, and if it
/// cannot be read: [`read`] reports why.
pub fn declared_name(folder: &Path) -> Option<String> {
    let name_in = |file: &str| {
        let path = folder.join(file);
        let is_small =
            fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
        let text = is_small.then(|| fs::read_to_string(path).ok()).flatten()?;
        Some(yaml::value(&text).ok()?.get("name")?.as_str()?.to_owned())
    };
    METADATA_FILES.into_iter().find_map(name_in)
}

/// The files of which a charm folder has at least one.
pub const METADATA_FILES: [&str; 2] = ["metadata.yaml", "charmcraft.yaml"];

/// Whether the folder at `path` is that of a charm: it has one of [`METADATA_FILES`].
pub fn is_charm_folder(path: &Path) -> bool {
    METADATA_FILES.iter().any(|file| path.join(file).exists())
}

/// Like [`read`]. `progress` receives a text for each step of the installation of Python packages, which may take
/// minutes.
///
/// # Errors
/// All problems of the charm.
pub fn read_with_progress(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Fn(&str),
) -> Result<CharmSource, Vec<Problem>> {
    read_for_host(path, options, TargetHost::This, progress)
}

/// Like [`read_with_progress`]. For machines on other hosts, another architecture is no problem but a warning.
///
/// # Errors
/// All problems of the charm.
pub fn read_for_host(
    path: &Path,
    options: &ReadOptions,
    target: TargetHost,
    progress: &dyn Fn(&str),
) -> Result<CharmSource, Vec<Problem>> {
    let shown = path.display().to_string();
    let problem = |text: String| vec![Problem::new(&shown, "", text)];
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => problem("no such folder or .charm file".to_owned()),
        _ => problem(format!("cannot be read: {error}")),
    })?;
    if found.is_dir() {
        return read_folder(path, options, target, progress);
    }
    if found.len() > UNPACKED_BYTES_MAX {
        return Err(problem("is larger than 512 MiB".to_owned()));
    }
    let archive = fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    read_archive_for_host(&shown, archive, options, target)
}

/// Reads an archive that is already in memory. `name` identifies the archive in problems.
///
/// # Errors
/// All problems of the charm.
pub fn read_archive(
    name: &str,
    archive: Vec<u8>,
    options: &ReadOptions,
) -> Result<CharmSource, Vec<Problem>> {
    read_archive_for_host(name, archive, options, TargetHost::This)
}

fn read_archive_for_host(
    name: &str,
    archive: Vec<u8>,
    options: &ReadOptions,
    target: TargetHost,
) -> Result<CharmSource, Vec<Problem>> {
    let (mut problems, mut notes, mut texts) = (Vec::new(), Vec::new(), Texts::new());
    let layout;
    {
        let (mut zip, members) = archive_entries::list(name, &archive)?;
        for member in members.iter().filter(|member| READ_FILES.contains(&member.path.as_str())) {
            match archive_entries::text(&mut zip, member, FILE_BYTES_MAX) {
                Ok(text) => drop(texts.insert(member.path.clone(), text)),
                Err(text) => problems.push(Problem::new(&member.path, "", text)),
            }
        }
        layout = Layout::from_members(members.iter().map(|member| (member.path.as_str(), &member.kind)));
    }
    if !texts.contains_key("metadata.yaml") && problems.is_empty() {
        problems.push(Problem::new("metadata.yaml", "", format!("is missing in {name}")));
    }
    let sections = parse_files(&texts, &mut problems);
    let (charm, declaration_problems) = declaration::declare(&sections, &texts, options.force, &mut notes);
    problems.extend(declaration_problems);
    problems.extend(check_layout(&layout, options.force));
    problems.extend(check_architecture(&charm, options.force, target, &mut notes));
    if let (Some(packed), false) = (&layout.python, options.force) {
        problems.extend(check_python(&charm, packed, host_python().map(|python| python.version).as_deref()));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if charm.bases.is_empty() {
        notes.push("the charm archive does not declare a base; assuming this host's".to_owned());
    }
    let sha256 = digest::sha256(&archive);
    Ok(CharmSource { charm, archive, sha256, notes })
}

fn read_folder(
    root: &Path,
    options: &ReadOptions,
    target: TargetHost,
    progress: &dyn Fn(&str),
) -> Result<CharmSource, Vec<Problem>> {
    let (mut problems, mut notes, mut texts) = (Vec::new(), Vec::new(), Texts::new());
    let mut files = folder::list(root, &mut notes)?;
    for file in READ_FILES {
        match files.get(file).map(|_| fs::metadata(root.join(file)).map(|found| found.len())) {
            None => {}
            Some(Ok(size)) if size > FILE_BYTES_MAX => problems.push(Problem::new(file, "", "is too large")),
            Some(_) => match fs::read_to_string(root.join(file)) {
                Ok(text) => drop(texts.insert(file.to_owned(), text)),
                Err(error) => problems.push(Problem::new(file, "", format!("cannot be read: {error}"))),
            },
        }
    }
    let mut sections = parse_files(&texts, &mut problems);
    let charmcraft = declaration::parse(&texts, "charmcraft.yaml", &mut problems);
    let mut requirements = Default::default();
    if let Some(Section { value, .. }) = &charmcraft {
        requirements = charmcraft::python_requirements(value);
        problems.extend(merge_charmcraft(value, &texts, &mut sections, &mut files));
    } else if !texts.contains_key("metadata.yaml") && problems.is_empty() {
        let text = format!("is missing in {}, and so is charmcraft.yaml", root.display());
        problems.push(Problem::new("metadata.yaml", "", text));
    }
    let (mut charm, declaration_problems) =
        declaration::declare(&sections, &texts, options.force, &mut notes);
    problems.extend(declaration_problems);
    if let (Some(Section { value, .. }), true) = (&charmcraft, charm.bases.is_empty()) {
        charm.bases = charmcraft::bases(value);
    }
    let kinds: Vec<(&String, MemberKind)> = files.iter().map(|(path, entry)| (path, entry.kind())).collect();
    let mut layout = Layout::from_members(kinds.iter().map(|(path, kind)| (path.as_str(), kind)));
    if files.contains_key("src/charm.py") {
        layout.dispatch.get_or_insert(true);
    }
    problems.extend(check_layout(&layout, options.force));
    problems.extend(check_architecture(&charm, options.force, target, &mut notes));
    if !problems.is_empty() {
        return Err(problems);
    }
    if !files.contains_key("version")
        && let Some(version) = git_version::describe(root)
    {
        files.insert("version".to_owned(), FileEntry::from_bytes(format!("{version}\n"), false));
        charm.version = Some(version);
    }
    // Installing packages may take minutes, so it is done only for a charm without problems.
    venv::add_python(root, &mut files, &requirements, &options.cache, &mut notes, progress)
        .map_err(|problem| vec![problem])?;
    let shown = root.display().to_string();
    let archive = archive::pack(&files)
        .map_err(|error| vec![Problem::new(&shown, "", format!("cannot be packed: {error}"))])?;
    // The agent checks the archive with the same function before it unpacks it.
    archive_entries::list(&shown, &archive)?;
    let sha256 = digest::sha256(&archive);
    Ok(CharmSource { charm, archive, sha256, notes })
}

/// Parses the sections that have files of their own.
fn parse_files(texts: &Texts, problems: &mut Vec<Problem>) -> Sections {
    Sections {
        metadata: declaration::parse(texts, "metadata.yaml", problems),
        config: declaration::parse(texts, "config.yaml", problems),
        actions: declaration::parse(texts, "actions.yaml", problems),
        manifest: declaration::parse(texts, "manifest.yaml", problems),
    }
}

/// Fills in the sections that only charmcraft.yaml declares, and adds the files that charms read at run time.
fn merge_charmcraft(
    value: &Value,
    texts: &Texts,
    sections: &mut Sections,
    files: &mut CharmFileList,
) -> Vec<Problem> {
    let mut checker = Checker::new("charmcraft.yaml");
    let split = charmcraft::split(value, &mut checker);
    let has_file = ["config", "actions"].map(|name| (name, texts.contains_key(&format!("{name}.yaml"))));
    charmcraft::check_duplicate_sections(value, &has_file, &mut checker);
    let mut add = |file: &str, value: &Value| match yaml::to_string(value) {
        Ok(text) => drop(files.insert(file.to_owned(), FileEntry::from_bytes(text, false))),
        Err(error) => checker.add("", format!("cannot be converted to {file}: {error}")),
    };
    if !texts.contains_key("metadata.yaml") {
        add("metadata.yaml", &split.metadata);
        let value = split.metadata;
        sections.metadata = Some(Section { file: "charmcraft.yaml", section: "", value });
    }
    if let (Some(value), false) = (split.config, texts.contains_key("config.yaml")) {
        add("config.yaml", &value);
        sections.config = Some(Section { file: "charmcraft.yaml", section: "config", value });
    }
    if let (Some(value), false) = (split.actions, texts.contains_key("actions.yaml")) {
        add("actions.yaml", &value);
        sections.actions = Some(Section { file: "charmcraft.yaml", section: "actions", value });
    }
    checker.problems
}

fn check_layout(layout: &Layout, forced: bool) -> Option<Problem> {
    match layout.dispatch {
        Some(true) => None,
        Some(false) => Some(Problem::new("dispatch", "", "is not executable")),
        None if layout.has_hooks || forced => None,
        None => Some(Problem::new(
            "dispatch",
            "",
            "is missing, and the hooks folder is empty: the charm has no code to run",
        )),
    }
}

/// Checks the architecture: programs and compiled packages of a charm for another one cannot be executed here. Whether they
/// can be on another host is not known, so this is a note then.
fn check_architecture(
    charm: &Charm,
    forced: bool,
    target: TargetHost,
    notes: &mut Vec<String>,
) -> Option<Problem> {
    let host = hardware::architecture();
    if forced || charm.runs_on_architecture(host) {
        return None;
    }
    let packed = charm.bases.iter().map(|base| format!("{base} on {}", base.architectures.join(", ")));
    let packed = packed.collect::<Vec<_>>().join("; ");
    let text = format!("charm {:?} was packed for {packed}; this host is {host}", charm.name);
    match target {
        TargetHost::This => {
            let text = format!("{text} - deploy the source directory, or use --force");
            Some(Problem::new("manifest.yaml", "bases", text))
        }
        TargetHost::Other => {
            notes
                .push(format!("{text}: hooks fail if the machine is of another architecture than the charm"));
            None
        }
    }
}

/// Checks the Python version: an environment that was packed for one version does not work with another. The text is
/// prescribed (spec/clients.md 4.1).
fn check_python(charm: &Charm, packed: &str, host: Option<&str>) -> Option<Problem> {
    if host == Some(packed) {
        return None;
    }
    let base = charm.base().map(|base| format!(" ({}@{})", base.name, base.channel)).unwrap_or_default();
    let has = host.map_or("this host has no python3".to_owned(), |host| format!("this host has {host}"));
    let text = format!(
        "charm {:?} was packed for python{packed}{base}; {has} - deploy the source directory, or use --force",
        charm.name
    );
    Some(Problem::new("venv", "", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::charm::Base;

    #[test]
    fn a_python_mismatch_names_both_versions() {
        let base = Base { name: "ubuntu".to_owned(), channel: "24.04".to_owned(), architectures: Vec::new() };
        let charm = Charm { name: "x".to_owned(), bases: vec![base], ..Charm::default() };
        assert_eq!(check_python(&charm, "3.12", Some("3.12")), None);
        let problem = check_python(&charm, "3.12", Some("3.11")).expect("another Python").to_string();
        assert!(problem.contains("python3.12 (ubuntu@24.04)") && problem.contains("3.11"), "{problem}");
        assert!(check_python(&charm, "3.12", None).is_some());
    }

    #[test]
    fn another_architecture_is_a_problem_on_this_host_and_a_note_on_others() {
        let base = Base {
            name: "ubuntu".to_owned(),
            channel: "24.04".to_owned(),
            architectures: vec!["none".to_owned()],
        };
        let charm = Charm { name: "x".to_owned(), bases: vec![base], ..Charm::default() };
        let mut notes = Vec::new();
        let problem = check_architecture(&charm, false, TargetHost::This, &mut notes).expect("a problem");
        assert!(problem.text.contains("--force") && notes.is_empty(), "{problem} {notes:?}");
        assert_eq!(check_architecture(&charm, true, TargetHost::Other, &mut notes), None);
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(check_architecture(&charm, false, TargetHost::Other, &mut notes), None);
        assert!(notes.len() == 1 && notes[0].contains(hardware::architecture()), "{notes:?}");
    }
}
