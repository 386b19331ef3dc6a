//! Tests of Python charms that are deployed from their source folder: their packages are installed and packed, and the
//! charm's code imports them. The tests build the packages, so that no package index is needed.

use charms::{ReadOptions, install, read};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const METADATA: &str = "name: py\nsummary: s\ndescription: d\n";
/// The charm's program prints what it imported instead of calling tools.
const CHARM: &str = "import os, sys, greeter\nprint(greeter.WORD, os.environ['JUJU_DISPATCH_PATH'])\n";

/// Writes a wheel: a zip archive with a module and the three files that describe it.
fn wheel(folder: &Path, word: &str) {
    let info = "greeter-1.0.dist-info";
    let record = format!("greeter.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
    let members = [
        ("greeter.py".to_owned(), format!("WORD = {word:?}\n")),
        (format!("{info}/METADATA"), "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n".to_owned()),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
        (format!("{info}/RECORD"), record),
    ];
    let mut zip =
        zip::ZipWriter::new(File::create(folder.join("greeter-1.0-py3-none-any.whl")).expect("created"));
    for (name, text) in members {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).expect("written");
        zip.write_all(text.as_bytes()).expect("written");
    }
    zip.finish().expect("finished");
}

fn charm(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("tempdir");
    fs::create_dir(folder.path().join("src")).expect("mkdir");
    wheel(folder.path(), "hello");
    for (path, text) in [("metadata.yaml", METADATA), ("src/charm.py", CHARM)].iter().chain(files) {
        fs::write(folder.path().join(path), text).expect("write");
    }
    folder
}

/// Installs the charm, runs its dispatch as an agent would, and returns the output.
fn run(charm: &Path, cache: &Path) -> String {
    let options = ReadOptions { cache: cache.to_owned(), force: false };
    let source = read(charm, &options).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let unit = TempDir::new().expect("tempdir");
    let deployed = unit.path().join("charm");
    install(&source.archive, &source.sha256, &deployed, 0).expect("installs");
    let mut dispatch = Command::new(deployed.join("dispatch"));
    dispatch.current_dir(&deployed).env("JUJU_DISPATCH_PATH", "hooks/start").env_remove("PYTHONPATH");
    let output = dispatch.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn packages_of_requirements_txt_are_packed_and_imported() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm(&[("requirements.txt", "./greeter-1.0-py3-none-any.whl\n")]);
    assert_eq!(run(charm.path(), cache.path()), "hello hooks/start");
    // The second deployment takes the packages from the cache.
    let options = ReadOptions { cache: cache.path().to_owned(), force: false };
    let again = read(charm.path(), &options).expect("reads");
    assert!(!again.notes.iter().any(|note| note.contains("installing")), "{:?}", again.notes);
    // A wheel with another content is installed again.
    wheel(charm.path(), "goodbye");
    assert_eq!(run(charm.path(), cache.path()), "goodbye hooks/start");
    assert_eq!(fs::read_dir(cache.path()).expect("a folder").count(), 2);
}

#[test]
fn a_local_source_in_pyproject_is_installed() {
    let cache = TempDir::new().expect("tempdir");
    let pyproject = "[project]\nname = \"py\"\nversion = \"0\"\ndependencies = [\"Greeter>=1\"]\n\
                     [tool.uv.sources]\ngreeter = { path = \"greeter-1.0-py3-none-any.whl\" }\n";
    let charm = charm(&[("pyproject.toml", pyproject)]);
    assert_eq!(run(charm.path(), cache.path()), "hello hooks/start");
}

#[test]
fn a_dispatch_that_expects_packages_in_venv_itself_imports_them() {
    let cache = TempDir::new().expect("tempdir");
    let dispatch = "#!/bin/sh\nPYTHONPATH=lib:venv exec python3 ./src/charm.py\n";
    let charm = charm(&[("requirements.txt", "./greeter-1.0-py3-none-any.whl\n"), ("dispatch", dispatch)]);
    assert_eq!(run(charm.path(), cache.path()), "hello hooks/start");
}

#[test]
fn packages_that_cannot_be_installed_are_one_problem() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm(&[("requirements.txt", "--no-index\nno-such-package-here\n")]);
    let options = ReadOptions { cache: cache.path().to_owned(), force: false };
    let problems = read(charm.path(), &options).expect_err("no such package");
    assert_eq!(problems.len(), 1);
    let line = problems[0].to_string();
    assert!(line.starts_with("requirements.txt: cannot install the Python packages: "), "{line}");
    assert!(line.contains("no-such-package-here") && line.lines().count() == 1, "{line}");
    assert_eq!(fs::read_dir(cache.path()).expect("a folder").count(), 0);
}
