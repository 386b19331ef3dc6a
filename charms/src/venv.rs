//! The Python packages of a charm deployed from its source folder. They are installed when the charm is read, by
//! the host's own python3 and pip, and packed into the archive: so the archive needs nothing else, every unit runs
//! the same packages, and a unit's machine needs no network. Installed sets are kept in a cache, by what was asked
//! for (spec/clients.md 4.1, "Helpful extension").

use crate::folder::{self, Content, Entry, Files};
use crate::problem::Problem;
use host::digest::sha256;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Asks the charm's files, in Python because only Python reads them right.
const REQUIREMENTS: &str = include_str!("requirements.py");

/// The script that runs a Python charm that brings none, for packages in `site`. A unit's folder is its working
/// directory; packages of the charm's own `lib` come first.
fn dispatch_script(site: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Written when the charm was packed: every hook and action of this charm is its src/charm.py.\n\
         export JUJU_DISPATCH_PATH=\"${{JUJU_DISPATCH_PATH:-$0}}\"\n\
         export PYTHONPATH=\"lib:{site}${{PYTHONPATH:+:$PYTHONPATH}}\"\n\
         exec python3 src/charm.py\n"
    )
}

/// `3.11`: the version of the python3 that hooks of this host will find; none without python3.
pub fn host_python() -> Option<String> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-I", "-c", script]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[derive(Deserialize)]
struct Declared {
    lines: Vec<String>,
    /// Name and path of dependencies whose declared local source is not there.
    missing: Vec<(String, String)>,
    local: Vec<PathBuf>,
}

/// Adds to `files` what a Python charm needs to run: its packages, unless it brings some in `venv`, and a `dispatch`,
/// unless it has one. A charm without src/charm.py is left as it is.
///
/// `extra` are requirements and requirements files named in charmcraft.yaml. `cache` is a folder of this user.
pub fn complete(
    root: &Path,
    files: &mut Files,
    extra: &(Vec<String>, Vec<String>),
    cache: &Path,
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    if !files.contains_key("src/charm.py") {
        return Ok(());
    }
    let mut site = "venv".to_owned();
    if !files.keys().any(|path| path.starts_with("venv/"))
        && let Some((python, packages)) = packages(root, files, extra, cache, notes)?
    {
        // A script written for packages lying flat in venv finds them there; the others look for an environment.
        let flat = dispatch_text(files).is_some_and(|text| !text.contains("site-packages"));
        if !flat {
            site = format!("venv/lib/python{python}/site-packages");
        }
        for (path, entry) in folder::list(&packages, notes).map_err(|problems| first(problems, &packages))? {
            files.insert(format!("{site}/{path}"), entry);
        }
    }
    if !files.contains_key("dispatch") {
        files.insert("dispatch".to_owned(), Entry::written(dispatch_script(&site), true));
    }
    Ok(())
}

fn first(problems: Vec<Problem>, packages: &Path) -> Problem {
    let fallback = Problem::new(&packages.display().to_string(), "", "cannot be read");
    problems.into_iter().next().unwrap_or(fallback)
}

fn dispatch_text(files: &Files) -> Option<String> {
    match files.get("dispatch") {
        Some(Entry::File { content, .. }) => {
            Some(String::from_utf8_lossy(&content.read().ok()?).into_owned())
        }
        _ => None,
    }
}

/// The host's Python version and the folder with the charm's packages; none when it asks for none.
fn packages(
    root: &Path,
    files: &Files,
    extra: &(Vec<String>, Vec<String>),
    cache: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<(String, PathBuf)>, Problem> {
    let wrong = |text: String| Problem::new("src/charm.py", "", text);
    let python = host_python().ok_or_else(|| {
        wrong("this charm needs Python: install python3 where it is deployed from".to_owned())
    })?;
    let root = root.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let asked = run(Command::new("python3").args(["-I", "-c", REQUIREMENTS]).arg(&root)).map_err(wrong)?;
    let declared: Declared = serde_json::from_slice(&asked.stdout).map_err(|_| {
        Problem::new("pyproject.toml", "", format!("cannot be read: {}", last_line(&asked.stderr)))
    })?;
    for (name, path) in &declared.missing {
        notes.push(format!("pyproject.toml: {path} is not there; {name} comes from the package index"));
    }
    let mut lines = declared.lines;
    lines.extend(extra.0.iter().cloned());
    let mut from: Vec<String> = extra.1.iter().filter(|name| root.join(name).is_file()).cloned().collect();
    if files.contains_key("requirements.txt") && !from.iter().any(|name| name == "requirements.txt") {
        from.push("requirements.txt".to_owned());
    }
    if lines.is_empty() && from.is_empty() {
        let brings_ops =
            files.keys().any(|path| path.starts_with("lib/ops/") || path.starts_with("src/ops/"));
        if brings_ops || !imports_ops(files) {
            return Ok(None);
        }
        notes.push("src/charm.py: imports ops without declaring it; the newest one is installed".to_owned());
        lines.push("ops".to_owned());
    }
    let key = key(&python, &root, &lines, &from, &declared.local);
    let kept = cache.join(&key);
    if !kept.join("site").is_dir() {
        notes.push(format!("installing the charm's Python packages with python{python} and pip"));
        install(&root, &lines, &from, &kept)?;
    }
    Ok(Some((python, kept.join("site"))))
}

fn imports_ops(files: &Files) -> bool {
    let Some(Entry::File { content: Content::Disk(path), .. }) = files.get("src/charm.py") else {
        return false;
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .any(|line| line == "import ops" || line.starts_with("from ops") || line.starts_with("import ops."))
}

/// Names a set of packages by everything that decides it: the Python, the requirements, the files these name.
fn key(python: &str, root: &Path, lines: &[String], from: &[String], local: &[PathBuf]) -> String {
    let mut parts = vec![python.to_owned()];
    parts.extend(lines.iter().cloned());
    for path in local {
        parts.push(content_digest(path));
    }
    for name in from {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        for line in text.lines().map(str::trim) {
            let named = ["-r ", "-c ", "-e ", "--editable ", "--requirement ", "--constraint "];
            let path = named.iter().find_map(|option| line.strip_prefix(option)).unwrap_or(line).trim();
            if path != line || path.starts_with(['.', '/']) {
                parts.push(content_digest(&root.join(path)));
            }
        }
        parts.push(text);
    }
    sha256(parts.join("\0").as_bytes())
}

/// The digest of a file, or of all files of a folder with their names; of nothing when there is none.
fn content_digest(path: &Path) -> String {
    if path.is_dir() {
        let mut all = String::new();
        for (name, entry) in folder::list(path, &mut Vec::new()).unwrap_or_default() {
            if let Entry::File { content, .. } = entry {
                all += &format!("{name} {}\n", sha256(&content.read().unwrap_or_default()));
            }
        }
        return sha256(all.as_bytes());
    }
    sha256(&fs::read(path).unwrap_or_default())
}

/// Installs into a folder beside `kept` and renames it there: a set of packages is whole or not there.
fn install(root: &Path, lines: &[String], from: &[String], kept: &Path) -> Result<(), Problem> {
    let file = from.last().map_or("pyproject.toml", String::as_str);
    let wrong = |text: String| Problem::new(file, "", text);
    let named = |error: std::io::Error| wrong(format!("cannot install its Python packages: {error}"));
    let building = kept.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&building);
    fs::create_dir_all(&building).map_err(named)?;
    let asked = building.join("asked.txt");
    fs::write(&asked, lines.join("\n")).map_err(named)?;
    // Some hosts have python3 without pip, some without venv: either is enough, and pip alone is seconds faster.
    let environment = building.join("environment");
    let has_pip =
        run(Command::new("python3").args(["-m", "pip", "--version"])).map_err(wrong)?.status.success();
    let python = if has_pip {
        PathBuf::from("python3")
    } else {
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).map_err(wrong)?;
        if !made.status.success() {
            let _ = fs::remove_dir_all(&building);
            return Err(wrong(
                "cannot install its Python packages: python3 has neither pip nor venv".to_owned(),
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
    // A user's own settings for other uses of pip; both contradict --target.
    pip.env("PIP_USER", "0").env("PIP_REQUIRE_VIRTUALENV", "0");
    // pip tries five times with growing pauses; a person is waiting.
    pip.args(["--retries", "1", "--timeout", "15"]);
    pip.arg("--target").arg(building.join("site")).arg("-r").arg(&asked);
    for name in from {
        pip.arg("-r").arg(root.join(name));
    }
    let output = run(pip.current_dir(root)).map_err(wrong)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = fs::remove_dir_all(&building);
        return Err(wrong(refusal(&text)));
    }
    fs::create_dir_all(building.join("site")).map_err(named)?;
    // Programs with the path of an environment that is about to vanish; nobody could run them.
    let _ = fs::remove_dir_all(building.join("site/bin"));
    let _ = fs::remove_dir_all(&environment);
    if let Err(error) = fs::rename(&building, kept) {
        // Somebody else has installed the same meanwhile: theirs is as good.
        let _ = fs::remove_dir_all(&building);
        if !kept.join("site").is_dir() {
            return Err(named(error));
        }
    }
    Ok(())
}

/// What pip said, as one line.
fn refusal(stderr: &str) -> String {
    let unreachable = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectionError",
        "ConnectTimeout",
        "name resolution",
        "ProxyError",
    ];
    if unreachable.iter().any(|word| stderr.contains(word)) {
        let hint = "pack the charm where it can be reached, or set PIP_INDEX_URL or PIP_FIND_LINKS";
        return format!("cannot install its Python packages: the package index cannot be reached; {hint}");
    }
    let error = stderr.lines().rev().find(|line| line.starts_with("ERROR:"));
    let error = error.unwrap_or_else(|| stderr.lines().last().unwrap_or_default());
    format!("cannot install its Python packages: {}", error.trim_start_matches("ERROR:").trim())
}

fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned()
}
