//! Adds the Python packages and a `dispatch` script to a charm that is deployed from its source folder (spec/clients.md
//! 4.1, "Helpful extension").
//!
//! The packages are installed with the host's own python3 and pip when the charm is read (`packages`), and packed into
//! the archive. Therefore the archive is complete, every unit runs the same packages, and the machine of a unit needs
//! no network. Called by `read` for folders.

use crate::charmcraft::PythonRequirements;
use crate::folder::{self, CharmFileList, FileEntry};
use crate::host_python::host_python;
use crate::packages::{CharmFolder, packages};
use crate::problem::Problem;
use std::path::Path;

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

/// Adds to `files` what a Python charm needs to run: its packages, unless it contains a `venv`, and a `dispatch`,
/// unless it has one. A charm without src/charm.py is not changed.
///
/// `build` is what charmcraft.yaml declares about packages. `cache` is a private folder of this user. `progress`
/// receives each step of an installation.
///
/// # Errors
/// Python is missing, or the packages cannot be installed.
pub fn add_python(
    root: &Path,
    files: &mut CharmFileList,
    build: &PythonRequirements,
    cache: &Path,
    notes: &mut Vec<String>,
    progress: &dyn Fn(&str),
) -> Result<(), Problem> {
    if !files.contains_key("src/charm.py") {
        return Ok(());
    }
    let mut site = "venv".to_owned();
    let needs_packages = !files.keys().any(|path| path.starts_with("venv/"));
    let python = if needs_packages { Some(host_python().ok_or_else(no_python)?) } else { None };
    if let Some(python) = python
        && let Some(packages) = packages(CharmFolder { root, files }, build, &python, cache, notes, progress)?
    {
        // A dispatch script that does not mention site-packages expects the packages in venv itself. All others expect
        // the layout of a virtual environment.
        let expects_flat_venv = dispatch_text(files).is_some_and(|text| !text.contains("site-packages"));
        if !expects_flat_venv {
            site = format!("venv/lib/python{}/site-packages", python.version);
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

fn no_python() -> Problem {
    let text = "the charm needs Python: install python3 on the host that deploys it";
    Problem::new("src/charm.py", "", text)
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
