//! Decides which Python packages a charm folder needs, installs them, and keeps each installed set for the next time.
//!
//! The charm's own requirements decide: they are resolved alone, with the versions of `uv.lock`, `poetry.lock` or
//! pyproject.toml. The lists `PYDEPS` of its charm libraries then add what is missing, and never change a version that
//! is installed. A library that requires another version is reported. Called by `venv`.
//!
//! ```text
//! CACHE/<digest>/site        the packages of one set of requirements; the folder exists once it is complete
//!               /warnings    what to report whenever the set is used, one per line
//!               /...         what pip was given and what it printed, for a person
//! CACHE/<digest>.new-<pid>/  a set that is being installed
//! CACHE/wheels/              pip's cache of downloaded and built wheels, shared by all sets
//! ```

mod pip;

use crate::charmcraft::PythonRequirements;
use crate::folder::{self, CharmFileList, Content, FileEntry};
use crate::host_python::HostPython;
use crate::package_cache::{self, WHEELS};
use crate::problem::Problem;
use host::digest::sha256;
use pip::{Pip, PipError, run};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that reads the requirements from the charm's files. It is Python because the files contain Python code
/// and TOML as Python reads it.
const DECLARED: &str = include_str!("packages/declared.py");
/// The program that compares installed packages with requirements, as pip does.
const INSTALLED: &str = include_str!("packages/installed.py");

/// The output of `declared.py`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Unreadable { error: UnreadableFile },
    Declared(Declared),
}

/// A file of the charm that cannot be read.
#[derive(Deserialize)]
struct UnreadableFile {
    file: String,
    text: String,
}

/// What the files of a charm declare.
#[derive(Deserialize)]
struct Declared {
    /// Package indexes, as lines of a requirements file.
    indexes: Vec<String>,
    /// Packages, each a line of a requirements file.
    lines: Vec<String>,
    /// Whether requirements.txt lists packages, too.
    use_requirements_txt: bool,
    /// The versions that a lock file or pyproject.toml pins.
    constraints: Vec<String>,
    /// Each charm library with the packages that it imports.
    libraries: Vec<(String, Vec<String>)>,
    /// Name and path of each dependency whose declared local source does not exist.
    missing: Vec<(String, String)>,
    /// Local sources that exist.
    local: Vec<PathBuf>,
    /// The versions of Python that pyproject.toml requires, if that of this host is none of them; else empty.
    unmet_python: String,
}

/// The output of `installed.py`.
#[derive(Deserialize)]
struct Installed {
    /// A constraint for each installed package and for the locked ones that are not installed.
    pins: Vec<String>,
    /// The requirements of libraries whose package is not installed.
    missing: Vec<String>,
    /// The requirements of libraries that the installed version does not meet.
    conflicts: Vec<Conflict>,
}

/// A requirement of a library that the installed version of a package does not meet.
#[derive(Deserialize)]
struct Conflict {
    library: String,
    requirement: String,
    name: String,
    version: String,
}

/// The Python packages that a charm requires.
struct Requirements {
    declared: Declared,
    /// Requirements files in the charm's folder.
    files: Vec<String>,
}

/// The folder of a charm, with the files that are packed.
#[derive(Clone, Copy)]
pub(crate) struct CharmFolder<'a> {
    pub root: &'a Path,
    pub files: &'a CharmFileList,
}

/// Returns the folder with the packages of a charm, which is installed if the cache lacks it; `None` if the
/// charm requires no packages.
///
/// # Errors
/// The packages cannot be installed.
pub(crate) fn packages(
    folder: CharmFolder<'_>,
    build: &PythonRequirements,
    python: &HostPython,
    cache: &Path,
    notes: &mut Vec<String>,
    progress: &dyn Fn(&str),
) -> Result<Option<PathBuf>, Problem> {
    let CharmFolder { root, files } = folder;
    let root = root.canonicalize().map_err(|error| charm_problem(error.to_string()))?;
    let Some(requirements) = requirements(&root, files, build, python, notes)? else { return Ok(None) };
    let cached = cache.join(requirements.digest(&python.version, &root));
    if !cached.join("site").is_dir() {
        progress(&format!("installing the charm's Python packages with python{} and pip", python.version));
        let installed = install(&requirements, &root, python, &cached, progress);
        // an attempt that fails has filled the cache, too
        package_cache::trim(cache);
        installed?;
    }
    package_cache::record_use(&cached);
    let warnings = fs::read_to_string(cached.join("warnings")).unwrap_or_default();
    notes.extend(warnings.lines().map(str::to_owned));
    Ok(Some(cached.join("site")))
}

fn charm_problem(text: String) -> Problem {
    Problem::new("src/charm.py", "", text)
}

/// Reads what the charm requires; `None` if it requires no packages.
fn requirements(
    root: &Path,
    files: &CharmFileList,
    build: &PythonRequirements,
    python: &HostPython,
    notes: &mut Vec<String>,
) -> Result<Option<Requirements>, Problem> {
    let mut named: Vec<String> =
        build.files.iter().filter(|name| root.join(name).is_file()).cloned().collect();
    let build = json!({
        "tool": build.tool.map(|tool| tool.as_str()), "lines": build.lines, "files": named,
        "groups": build.groups, "extras": build.extras,
    });
    let mut reader = Command::new(&python.interpreter);
    reader.args(["-I", "-c", DECLARED]).arg(root).arg(build.to_string());
    let output = run(&mut reader).map_err(charm_problem)?;
    let mut declared = match serde_json::from_slice(&output.stdout) {
        Ok(Answer::Declared(declared)) => declared,
        Ok(Answer::Unreadable { error: UnreadableFile { file, text } }) => {
            return Err(Problem::new(&file, "", format!("cannot be read: {text}")));
        }
        Err(_) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or_default();
            return Err(charm_problem(format!("its requirements cannot be read: {last}")));
        }
    };
    for (name, path) in &declared.missing {
        notes.push(format!("pyproject.toml: {path} does not exist; {name} comes from the package index"));
    }
    if !declared.unmet_python.is_empty() {
        notes.push(format!(
            "pyproject.toml: requires Python {}, and the charm is packed with {}",
            declared.unmet_python, python.version
        ));
    }
    if declared.use_requirements_txt
        && files.contains_key("requirements.txt")
        && !named.iter().any(|name| name == "requirements.txt")
    {
        named.push("requirements.txt".to_owned());
    }
    if declared.lines.is_empty() && named.is_empty() {
        let contains_ops =
            files.keys().any(|path| path.starts_with("lib/ops/") || path.starts_with("src/ops/"));
        if !contains_ops && imports_ops(files) {
            notes.push(
                "src/charm.py: imports ops without declaring it, so its version is not fixed".to_owned(),
            );
            declared.lines.push("ops".to_owned());
        } else if declared.libraries.iter().all(|(_, lines)| lines.is_empty()) {
            return Ok(None);
        }
    }
    Ok(Some(Requirements { declared, files: named }))
}

fn imports_ops(files: &CharmFileList) -> bool {
    let Some(FileEntry::File { content: Content::Disk(path), .. }) = files.get("src/charm.py") else {
        return false;
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    let is_ops = |module: &str| matches!(module.trim().split([' ', '.']).next(), Some("ops"));
    text.lines().any(|line| match (line.strip_prefix("import "), line.strip_prefix("from ")) {
        (Some(modules), _) => modules.split(',').any(is_ops),
        (_, Some(module)) => is_ops(module),
        _ => false,
    })
}

impl Requirements {
    /// The name of this set of packages in the cache: a digest of the Python version, the requirements, and the content
    /// of all files and folders that they name.
    fn digest(&self, python: &str, root: &Path) -> String {
        let Declared { indexes, lines, constraints, libraries, local, .. } = &self.declared;
        let mut parts = vec![python.to_owned(), json!([indexes, lines, constraints, libraries]).to_string()];
        parts.extend(local.iter().map(|path| content_digest(path)));
        let mut files: Vec<PathBuf> = self.files.iter().map(|name| root.join(name)).collect();
        let mut read = BTreeSet::new();
        while let Some(file) = files.pop() {
            if !read.insert(file.clone()) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap_or_default();
            for named in text.lines().filter_map(Named::of) {
                match named {
                    Named::RequirementsFile(name) => files.push(file.with_file_name(name)),
                    Named::Source(name) => parts.push(content_digest(&root.join(name))),
                }
            }
            parts.push(text);
        }
        sha256(parts.join("\0").as_bytes())
    }

    /// The options of all requirements that are about package indexes, for a requirements file of other packages.
    fn index_options(&self, root: &Path) -> Vec<String> {
        let mut options = self.declared.indexes.clone();
        for name in &self.files {
            let text = fs::read_to_string(root.join(name)).unwrap_or_default();
            let is_index = |line: &&str| {
                let names =
                    ["-i", "-f", "--index-url", "--extra-index-url", "--find-links", "--trusted-host"];
                let name = line.split([' ', '=']).next().unwrap_or_default();
                names.contains(&name) || matches!(name, "--no-index" | "--pre" | "--prefer-binary")
            };
            options.extend(text.lines().map(str::trim).filter(is_index).map(str::to_owned));
        }
        options
    }
}

/// What a line of a requirements file names.
enum Named<'a> {
    /// Another such file, relative to the folder of this one.
    RequirementsFile(&'a str),
    /// A package, or a folder of packages, relative to the charm's folder.
    Source(&'a str),
}

impl<'a> Named<'a> {
    /// Reads a line as pip does; `None` if it names nothing on this host.
    fn of(line: &'a str) -> Option<Named<'a>> {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let value_of = |options: [&str; 2]| {
            let rest = options.iter().find_map(|option| line.strip_prefix(option))?;
            Some(rest.trim_start_matches('=').trim())
        };
        let file = value_of(["--requirement", "-r"]).or_else(|| value_of(["--constraint", "-c"]));
        if let Some(name) = file {
            return Some(Named::RequirementsFile(name));
        }
        let source =
            value_of(["--editable", "-e"]).or_else(|| value_of(["--find-links", "-f"])).unwrap_or(line);
        let source = source.split(" ;").next().unwrap_or_default();
        let path = source.split_once("@ file:").map_or(source, |(_, path)| path.trim_start_matches("//"));
        let path = path.split('[').next().unwrap_or_default().trim();
        let is_path = path.starts_with('.') || path.contains('/') && !path.contains("://");
        is_path.then_some(Named::Source(path))
    }
}

/// The digest of a file, or of all files of a folder with their names. A path that does not exist has the digest of an
/// empty file.
fn content_digest(path: &Path) -> String {
    if path.is_dir() {
        let mut listing = String::new();
        for (name, entry) in folder::list(path, &mut Vec::new()).unwrap_or_default() {
            if let FileEntry::File { content, .. } = entry {
                listing += &format!("{name} {}\n", sha256(&content.read().unwrap_or_default()));
            }
        }
        return sha256(listing.as_bytes());
    }
    sha256(&fs::read(path).unwrap_or_default())
}

/// Installs packages into a new folder beside `cached` and renames it to `cached`, so that a cached set is complete.
fn install(
    requirements: &Requirements,
    root: &Path,
    python: &HostPython,
    cached: &Path,
    progress: &dyn Fn(&str),
) -> Result<(), Problem> {
    let file = requirements.files.last().map_or("pyproject.toml", String::as_str);
    let problem =
        |text: String| Problem::new(file, "", format!("cannot install the Python packages: {text}"));
    let building = cached.with_extension(format!("new-{}", std::process::id()));
    let to_problem = |error: io::Error| problem(error.to_string());
    let _ = fs::remove_dir_all(&building);
    fs::create_dir_all(&building).map_err(to_problem)?;
    let wheels = cached.with_file_name(WHEELS);
    let made = interpreter_with_pip(python, &building).and_then(|python| {
        let pip = Pip { python, root, wheels, building: &building, progress };
        let set = NewSet { pip, requirements, options: requirements.index_options(root) };
        set.install().map_err(|error| error.text().to_owned())
    });
    if let Err(text) = made {
        let _ = fs::remove_dir_all(&building);
        return Err(problem(text));
    }
    if let Err(error) = fs::rename(&building, cached) {
        // Another process may have installed the same set meanwhile. Its result is equivalent.
        let _ = fs::remove_dir_all(&building);
        if !cached.join("site").is_dir() {
            return Err(to_problem(error));
        }
    }
    Ok(())
}

/// Returns an interpreter that has pip. Some hosts have python3 without pip, others without venv; either is enough, and
/// an existing pip saves the seconds in which an environment is created.
fn interpreter_with_pip(python: &HostPython, building: &Path) -> Result<PathBuf, String> {
    let interpreter = &python.interpreter;
    if run(Command::new(interpreter).args(["-m", "pip", "--version"]))?.status.success() {
        return Ok(interpreter.clone());
    }
    let environment = building.join("environment");
    let created = run(Command::new(interpreter).args(["-m", "venv"]).arg(&environment))?;
    match created.status.success() {
        true => Ok(environment.join("bin/python")),
        false => Err("python3 has neither pip nor venv".to_owned()),
    }
}

/// A set of packages that is being installed in the folder `building` of `pip`.
struct NewSet<'a> {
    pip: Pip<'a>,
    requirements: &'a Requirements,
    /// The package indexes of all requirements.
    options: Vec<String>,
}

impl NewSet<'_> {
    fn install(&self) -> Result<(), PipError> {
        let Declared { indexes, lines, constraints, .. } = &self.requirements.declared;
        let building = self.pip.building;
        let mut files = vec![self.write("requirements.txt", &[indexes, lines].map(Vec::as_slice).concat())?];
        files.extend(self.requirements.files.iter().map(|name| self.pip.root.join(name)));
        let constraints = self.write("constraints.txt", constraints)?;
        let site = building.join("site");
        self.pip.install(&site, &files, &constraints)?;
        fs::create_dir_all(&site).map_err(other)?;
        let missing = self.installed()?.missing;
        if !missing.is_empty() {
            self.add(&missing)?;
        }
        let warnings: Vec<String> = self.installed()?.conflicts.iter().map(warning).collect();
        self.write("warnings", &warnings)?;
        // The programs contain the path of the temporary environment, which is removed, so they could not run.
        for left in ["site/bin", "environment", "added"] {
            let _ = fs::remove_dir_all(building.join(left));
        }
        Ok(())
    }

    /// Compares what is installed with what the charm libraries require.
    fn installed(&self) -> Result<Installed, PipError> {
        let declared = &self.requirements.declared;
        let mut reader = Command::new(&self.pip.python);
        reader.args(["-c", INSTALLED]).arg(self.pip.building.join("site"));
        reader.arg(json!([declared.libraries, declared.constraints]).to_string());
        // Python imports from the current folder first; this one contains no code.
        let output = run(reader.current_dir(self.pip.building)).map_err(PipError::Other)?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let text = String::from_utf8_lossy(&output.stderr);
            PipError::Other(format!(
                "cannot list the installed packages: {}",
                text.lines().last().unwrap_or_default()
            ))
        })
    }

    /// Adds packages that charm libraries require, without changing what is installed. If they cannot be added as
    /// required, each is added in the version that fits what is installed.
    fn add(&self, lines: &[String]) -> Result<(), PipError> {
        match (self.add_as_required(lines), lines) {
            (Err(PipError::Unsolvable(text)), [line]) => {
                let end = line.find(['<', '>', '=', '!', '~', ';', '@', ' ']).unwrap_or(line.len());
                let any_version = &line[..end];
                let added = any_version != line && self.add_as_required(&[any_version.to_owned()]).is_ok();
                let failed = || PipError::Unsolvable(format!("PYDEPS of a charm library: {text}"));
                if added { Ok(()) } else { Err(failed()) }
            }
            (Err(PipError::Unsolvable(_)), _) => {
                lines.iter().try_for_each(|line| self.add(std::slice::from_ref(line)))
            }
            (result, _) => result,
        }
    }

    fn add_as_required(&self, lines: &[String]) -> Result<(), PipError> {
        let requirements = self.write("added.txt", &[&self.options, lines].concat())?;
        let pins = self.write("pins.txt", &self.installed()?.pins)?;
        let (added, site) = (self.pip.building.join("added"), self.pip.building.join("site"));
        host::file::ignore_not_found(fs::remove_dir_all(&added)).map_err(other)?;
        self.pip.install(&added, &[requirements], &pins)?;
        merge(&added, &site).map_err(other)
    }

    fn write(&self, name: &str, lines: &[String]) -> Result<PathBuf, PipError> {
        let path = self.pip.building.join(name);
        fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).map_err(other)?;
        Ok(path)
    }
}

fn other(error: io::Error) -> PipError {
    PipError::Other(error.to_string())
}

fn warning(conflict: &Conflict) -> String {
    let Conflict { library, requirement, name, version } = conflict;
    format!(
        "{library}: requires {requirement}, but {name} {version} is installed for the charm and its other libraries"
    )
}

/// Moves everything in `from` that `to` lacks to `to`. Namespace packages share folders.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let (entry, kind) = entry.and_then(|entry| entry.file_type().map(|kind| (entry, kind)))?;
        let target = to.join(entry.file_name());
        if fs::symlink_metadata(&target).is_err() {
            fs::rename(entry.path(), target)?;
        } else if kind.is_dir() && target.is_dir() {
            merge(&entry.path(), &target)?;
        }
    }
    Ok(())
}
