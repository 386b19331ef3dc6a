//! Installs the Python packages of a charm that is deployed from its source folder (spec/clients.md 4.1, "Helpful
//! extension").
//!
//! The packages are installed with the host's own python3 and pip when the charm is read, and packed into the archive.
//! Therefore the archive is complete, every unit runs the same packages, and the machine of a unit needs no network.
//! Installed packages are cached by the requirements that decided them. Called by `read` for folders.

use crate::charmcraft::PythonRequirements;
use crate::folder::{self, CharmFileList, Content, FileEntry};
use crate::problem::Problem;
use host::digest::sha256;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program that reads the requirements from the charm's files. It is Python because the files contain Python code
/// and TOML as Python reads it.
const REQUIREMENTS: &str = include_str!("requirements.py");

/// The `dispatch` script for a Python charm that has none, with packages in the folder `site`. The agent runs it in the
/// charm's folder. The charm's own `lib` takes precedence over the packages.
fn dispatch_script(site: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Written when the charm was packed: every hook and action of this charm is its src/charm.py.\n\
         export JUJU_DISPATCH_PATH=\"${{JUJU_DISPATCH_PATH:-$0}}\"\n\
         export PYTHONPATH=\"lib:{site}${{PYTHONPATH:+:$PYTHONPATH}}\"\n\
         exec python3 src/charm.py\n"
    )
}

/// The python3 of this host, that its hooks run.
pub(crate) struct HostPython {
    /// For example `3.11`.
    pub version: String,
    /// The interpreter itself. What PATH finds may be a script of a version manager that does more than asked:
    /// pyenv's writes a folder after each `pip install`, and two at once fail.
    interpreter: PathBuf,
}

/// The python3 that PATH finds; `None` without one.
pub(crate) fn host_python() -> Option<HostPython> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)";
    let output = Command::new("python3").args(["-I", "-c", script]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let (version, interpreter) = text.trim_end().split_once('\n')?;
    Some(HostPython { version: version.to_owned(), interpreter: interpreter.into() })
}

/// The output of `requirements.py`.
#[derive(Deserialize)]
struct DeclaredRequirements {
    /// Packages, each a line of a requirements file.
    lines: Vec<String>,
    /// Name and path of each dependency whose declared local source does not exist.
    missing: Vec<(String, String)>,
    /// Local sources that exist.
    local: Vec<PathBuf>,
}

/// Adds to `files` what a Python charm needs to run: its packages, unless it contains a `venv`, and a `dispatch`, unless
/// it has one. A charm without src/charm.py is not changed.
///
/// `declared` are the requirements of charmcraft.yaml. `cache` is a private folder of this user.
///
/// # Errors
/// Python is missing, or the packages cannot be installed.
pub fn add_python(
    root: &Path,
    files: &mut CharmFileList,
    declared: &PythonRequirements,
    cache: &Path,
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    if !files.contains_key("src/charm.py") {
        return Ok(());
    }
    let mut site = "venv".to_owned();
    if !files.keys().any(|path| path.starts_with("venv/"))
        && let Some((python, packages)) = packages(root, files, declared, cache, notes)?
    {
        // A dispatch script that does not mention site-packages expects the packages in venv itself. All others expect
        // the layout of a virtual environment.
        let expects_flat_venv = dispatch_text(files).is_some_and(|text| !text.contains("site-packages"));
        if !expects_flat_venv {
            site = format!("venv/lib/python{python}/site-packages");
        }
        for (path, entry) in
            folder::list(&packages, notes).map_err(|problems| first_problem(problems, &packages))?
        {
            files.insert(format!("{site}/{path}"), entry);
        }
    }
    if !files.contains_key("dispatch") {
        files.insert("dispatch".to_owned(), FileEntry::from_bytes(dispatch_script(&site), true));
    }
    Ok(())
}

fn first_problem(problems: Vec<Problem>, packages: &Path) -> Problem {
    let fallback = Problem::new(&packages.display().to_string(), "", "cannot be read");
    problems.into_iter().next().unwrap_or(fallback)
}

fn dispatch_text(files: &CharmFileList) -> Option<String> {
    match files.get("dispatch") {
        Some(FileEntry::File { content, .. }) => {
            Some(String::from_utf8_lossy(&content.read().ok()?).into_owned())
        }
        _ => None,
    }
}

/// Returns the host's Python version and the folder with the charm's packages; `None` if the charm requires no packages.
fn packages(
    root: &Path,
    files: &CharmFileList,
    declared: &PythonRequirements,
    cache: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<(String, PathBuf)>, Problem> {
    let problem = |text: String| Problem::new("src/charm.py", "", text);
    let HostPython { version, interpreter } = host_python().ok_or_else(|| {
        problem("the charm needs Python: install python3 on the host that deploys it".to_owned())
    })?;
    let root = root.canonicalize().map_err(|error| problem(error.to_string()))?;
    let output =
        run(Command::new(&interpreter).args(["-I", "-c", REQUIREMENTS]).arg(&root)).map_err(problem)?;
    let found: DeclaredRequirements = serde_json::from_slice(&output.stdout).map_err(|_| {
        Problem::new("pyproject.toml", "", format!("cannot be read: {}", last_line(&output.stderr)))
    })?;
    for (name, path) in &found.missing {
        notes
            .push(format!("pyproject.toml: {path} does not exist; installing {name} from the package index"));
    }
    let mut lines = found.lines;
    lines.extend(declared.lines.iter().cloned());
    let mut requirements_files: Vec<String> =
        declared.files.iter().filter(|name| root.join(name).is_file()).cloned().collect();
    if files.contains_key("requirements.txt")
        && !requirements_files.iter().any(|name| name == "requirements.txt")
    {
        requirements_files.push("requirements.txt".to_owned());
    }
    if lines.is_empty() && requirements_files.is_empty() {
        let contains_ops =
            files.keys().any(|path| path.starts_with("lib/ops/") || path.starts_with("src/ops/"));
        if contains_ops || !imports_ops(files) {
            return Ok(None);
        }
        notes
            .push("src/charm.py: imports ops without declaring it; installing the newest version".to_owned());
        lines.push("ops".to_owned());
    }
    let key = cache_key(&version, &root, &lines, &requirements_files, &found.local);
    let cached = cache.join(&key);
    if !cached.join("site").is_dir() {
        notes.push(format!("installing the charm's Python packages with python{version} and pip"));
        install(&interpreter, &root, &lines, &requirements_files, &cached)?;
    }
    Ok(Some((version, cached.join("site"))))
}

fn imports_ops(files: &CharmFileList) -> bool {
    let Some(FileEntry::File { content: Content::Disk(path), .. }) = files.get("src/charm.py") else {
        return false;
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .any(|line| line == "import ops" || line.starts_with("from ops") || line.starts_with("import ops."))
}

/// The cache key of a set of packages: a digest of the Python version, the requirements, and the content of all files
/// that they name.
fn cache_key(python: &str, root: &Path, lines: &[String], files: &[String], local: &[PathBuf]) -> String {
    let mut parts = vec![python.to_owned()];
    parts.extend(lines.iter().cloned());
    for path in local {
        parts.push(content_digest(path));
    }
    for name in files {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        for line in text.lines().map(str::trim) {
            let options = ["-r ", "-c ", "-e ", "--editable ", "--requirement ", "--constraint "];
            let path = options.iter().find_map(|option| line.strip_prefix(option)).unwrap_or(line).trim();
            if path != line || path.starts_with(['.', '/']) {
                parts.push(content_digest(&root.join(path)));
            }
        }
        parts.push(text);
    }
    sha256(parts.join("\0").as_bytes())
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
    interpreter: &Path,
    root: &Path,
    lines: &[String],
    files: &[String],
    cached: &Path,
) -> Result<(), Problem> {
    let file = files.last().map_or("pyproject.toml", String::as_str);
    let problem = |text: String| Problem::new(file, "", text);
    let io_problem = |error: std::io::Error| problem(format!("cannot install the Python packages: {error}"));
    let building = cached.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&building);
    fs::create_dir_all(&building).map_err(io_problem)?;
    let requirements = building.join("requirements.txt");
    fs::write(&requirements, lines.join("\n")).map_err(io_problem)?;
    // Some hosts have python3 without pip, some without venv. Either is enough; pip alone is seconds faster.
    let environment = building.join("environment");
    let has_pip =
        run(Command::new(interpreter).args(["-m", "pip", "--version"])).map_err(problem)?.status.success();
    let python = if has_pip {
        interpreter.to_owned()
    } else {
        let created =
            run(Command::new(interpreter).args(["-m", "venv"]).arg(&environment)).map_err(problem)?;
        if !created.status.success() {
            let _ = fs::remove_dir_all(&building);
            return Err(problem(
                "cannot install the Python packages: python3 has neither pip nor venv".to_owned(),
            ));
        }
        environment.join("bin/python")
    };
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-compile",
    ]);
    // Settings that the user may have for other uses of pip. Both contradict --target.
    pip.env("PIP_USER", "0").env("PIP_REQUIRE_VIRTUALENV", "0");
    // The default is five attempts with growing delays, which is too long for a person who waits.
    pip.args(["--retries", "1", "--timeout", "15"]);
    pip.arg("--target").arg(building.join("site")).arg("-r").arg(&requirements);
    for name in files {
        pip.arg("-r").arg(root.join(name));
    }
    let output = run(pip.current_dir(root)).map_err(problem)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = fs::remove_dir_all(&building);
        return Err(problem(pip_error(&text)));
    }
    fs::create_dir_all(building.join("site")).map_err(io_problem)?;
    // The programs contain the path of the temporary environment, which is removed, so they could not run.
    let _ = fs::remove_dir_all(building.join("site/bin"));
    let _ = fs::remove_dir_all(&environment);
    if let Err(error) = fs::rename(&building, cached) {
        // Another process may have installed the same set meanwhile. Its result is equivalent.
        let _ = fs::remove_dir_all(&building);
        if !cached.join("site").is_dir() {
            return Err(io_problem(error));
        }
    }
    Ok(())
}

/// The error of pip as one line.
fn pip_error(stderr: &str) -> String {
    let unreachable = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectionError",
        "ConnectTimeout",
        "name resolution",
        "ProxyError",
    ];
    if unreachable.iter().any(|word| stderr.contains(word)) {
        let hint = "deploy from a host that can reach it, or set PIP_INDEX_URL or PIP_FIND_LINKS";
        return format!("cannot install the Python packages: the package index is unreachable; {hint}");
    }
    let error = stderr.lines().rev().find(|line| line.starts_with("ERROR:"));
    let error = error.unwrap_or_else(|| stderr.lines().last().unwrap_or_default());
    format!("cannot install the Python packages: {}", error.trim_start_matches("ERROR:").trim())
}

fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned()
}
