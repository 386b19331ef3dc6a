//! Reading a charm from a folder or an archive: everything it declares and the archive to upload, or everything that
//! is wrong with it.

use crate::archive::{self, UNPACKED_BYTES_MAX};
use crate::declared::{self, FILE_BYTES_MAX, Layout, READ, Section, Sections, Texts};
use crate::folder::{self, Entry, Files};
use crate::names::Kind;
use crate::problem::{Checker, Problem};
use crate::{charmcraft, members, venv, yaml};
use host::digest;
use serde_json::Value;
use state::charm::Charm;
use std::fs;
use std::path::{Path, PathBuf};

/// A charm that can be deployed.
#[derive(Debug)]
pub struct Source {
    pub charm: Charm,
    /// The bytes of the `.charm` archive, and their sha256.
    pub archive: Vec<u8>,
    pub sha256: String,
    /// What the user may want to know: files left out, packages installed, doubtful declarations.
    pub notes: Vec<String>,
}

/// How to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// A folder of this user where installed Python packages are kept from one deploy to the next.
    pub cache: PathBuf,
    /// Deploy although assumptions are not met, the packed Python is another, or nothing can be run.
    pub force: bool,
}

/// Reads the charm at `path`: its folder, or a `.charm` archive. All problems are reported at once.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Source, Vec<Problem>> {
    let shown = path.display().to_string();
    let whole = |text: String| vec![Problem::new(&shown, "", text)];
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => whole("there is no such folder or .charm file".to_owned()),
        _ => whole(format!("cannot be read: {error}")),
    })?;
    if found.is_dir() {
        return read_folder(path, options);
    }
    if found.len() > UNPACKED_BYTES_MAX {
        return Err(whole("is larger than 512 MiB".to_owned()));
    }
    let archive = fs::read(path).map_err(|error| whole(format!("cannot be read: {error}")))?;
    read_archive(&shown, archive, options)
}

/// Reads an archive that is already in memory; `name` is what it is called in problems.
pub fn read_archive(name: &str, archive: Vec<u8>, options: &ReadOptions) -> Result<Source, Vec<Problem>> {
    let (mut problems, mut notes, mut texts) = (Vec::new(), Vec::new(), Texts::new());
    let layout;
    {
        let (mut zip, members) = members::list(name, &archive)?;
        for member in members.iter().filter(|member| READ.contains(&member.path.as_str())) {
            match members::text(&mut zip, member, FILE_BYTES_MAX) {
                Ok(text) => drop(texts.insert(member.path.clone(), text)),
                Err(text) => problems.push(Problem::new(&member.path, "", text)),
            }
        }
        layout = Layout::of(members.iter().map(|member| (member.path.as_str(), &member.kind)));
    }
    if !texts.contains_key("metadata.yaml") && problems.is_empty() {
        problems.push(Problem::new("metadata.yaml", "", format!("is missing in {name}")));
    }
    let sections = own_files(&texts, &mut problems);
    let (charm, wrong) = declared::declare(&sections, &texts, options.force, &mut notes);
    problems.extend(wrong);
    problems.extend(check_layout(&layout, options.force));
    if let (Some(packed), false) = (&layout.python, options.force) {
        problems.extend(check_python(&charm, packed, venv::host_python().as_deref()));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if charm.bases.is_empty() {
        notes.push("the archive names no base: this host's is taken".to_owned());
    }
    let sha256 = digest::sha256(&archive);
    Ok(Source { charm, archive, sha256, notes })
}

fn read_folder(root: &Path, options: &ReadOptions) -> Result<Source, Vec<Problem>> {
    let (mut problems, mut notes, mut texts) = (Vec::new(), Vec::new(), Texts::new());
    let mut files = folder::list(root, &mut notes)?;
    for file in READ {
        match files.get(file).map(|_| fs::metadata(root.join(file)).map(|found| found.len())) {
            None => {}
            Some(Ok(size)) if size > FILE_BYTES_MAX => problems.push(Problem::new(file, "", "is too large")),
            Some(_) => match fs::read_to_string(root.join(file)) {
                Ok(text) => drop(texts.insert(file.to_owned(), text)),
                Err(error) => problems.push(Problem::new(file, "", format!("cannot be read: {error}"))),
            },
        }
    }
    let mut sections = own_files(&texts, &mut problems);
    let charmcraft = declared::parse(&texts, "charmcraft.yaml", &mut problems);
    let mut extra = Default::default();
    if let Some(Section { value, .. }) = &charmcraft {
        extra = charmcraft::python_requirements(value);
        problems.extend(take_from_charmcraft(value, &texts, &mut sections, &mut files));
    } else if !texts.contains_key("metadata.yaml") && problems.is_empty() {
        let text = format!("is missing in {}, and so is charmcraft.yaml: this is no charm", root.display());
        problems.push(Problem::new("metadata.yaml", "", text));
    }
    let (charm, wrong) = declared::declare(&sections, &texts, options.force, &mut notes);
    problems.extend(wrong);
    let kind = |entry: &Entry| match entry {
        Entry::File { executable, .. } => Kind::File { executable: *executable },
        Entry::Link(target) => Kind::Link(target.clone()),
    };
    let kinds: Vec<(&String, Kind)> = files.iter().map(|(path, entry)| (path, kind(entry))).collect();
    let mut layout = Layout::of(kinds.iter().map(|(path, kind)| (path.as_str(), kind)));
    if files.contains_key("src/charm.py") {
        layout.dispatch.get_or_insert(true);
    }
    problems.extend(check_layout(&layout, options.force));
    if !problems.is_empty() {
        return Err(problems);
    }
    // Only a charm without problems is worth minutes of installing packages.
    venv::complete(root, &mut files, &extra, &options.cache, &mut notes).map_err(|problem| vec![problem])?;
    let shown = root.display().to_string();
    let archive = archive::pack(&files)
        .map_err(|error| vec![Problem::new(&shown, "", format!("cannot be packed: {error}"))])?;
    // What was packed here must be acceptable there.
    members::list(&shown, &archive)?;
    let sha256 = digest::sha256(&archive);
    Ok(Source { charm, archive, sha256, notes })
}

/// The sections that stand in files of their own.
fn own_files(texts: &Texts, problems: &mut Vec<Problem>) -> Sections {
    Sections {
        metadata: declared::parse(texts, "metadata.yaml", problems),
        config: declared::parse(texts, "config.yaml", problems),
        actions: declared::parse(texts, "actions.yaml", problems),
        manifest: declared::parse(texts, "manifest.yaml", problems),
    }
}

/// Fills in what only charmcraft.yaml has, and adds the files that charms read at run time.
fn take_from_charmcraft(
    value: &Value,
    texts: &Texts,
    sections: &mut Sections,
    files: &mut Files,
) -> Vec<Problem> {
    let mut checker = Checker::new("charmcraft.yaml");
    let split = charmcraft::split(value, &mut checker);
    let own = ["config", "actions"].map(|name| (name, texts.contains_key(&format!("{name}.yaml"))));
    charmcraft::check_twice(value, &own, &mut checker);
    let mut add = |file: &str, value: &Value| match yaml::to_string(value) {
        Ok(text) => drop(files.insert(file.to_owned(), Entry::written(text, false))),
        Err(error) => checker.say("", format!("cannot be written as {file}: {error}")),
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
        None => {
            Some(Problem::new("dispatch", "", "is missing, and there is nothing in hooks: no code to run"))
        }
    }
}

/// An environment packed for one Python does not work with another; that sentence saves its reader an hour
/// (spec/clients.md 4.1).
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
    fn a_python_mismatch_is_one_helpful_sentence() {
        let base = Base { name: "ubuntu".to_owned(), channel: "24.04".to_owned(), architectures: Vec::new() };
        let charm = Charm { name: "x".to_owned(), bases: vec![base], ..Charm::default() };
        assert_eq!(check_python(&charm, "3.12", Some("3.12")), None);
        let problem = check_python(&charm, "3.12", Some("3.11")).expect("another Python").to_string();
        let expected = "venv: charm \"x\" was packed for python3.12 (ubuntu@24.04); this host has 3.11";
        assert!(problem.starts_with(expected), "{problem}");
        assert!(check_python(&charm, "3.12", None).is_some());
    }
}
