//! Tests of Python charms that are deployed from their source folder: their packages are installed and packed, and the
//! charm's code imports them. The tests build the packages, so that no package index is needed.

use charms::{ReadOptions, install, read};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
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

/// A version manager puts its own `python3` on PATH, and pyenv's writes a folder after each `pip install`, so that two
/// at once fail. The packages are therefore installed by the interpreter behind it.
#[test]
fn a_python3_that_is_a_script_that_selects_a_version_does_not_install() {
    let folder = TempDir::new().expect("tempdir");
    let path = std::env::var_os("PATH").expect("a PATH");
    let script = "#!/bin/sh\ncase \"$*\" in *'-m pip install '*) echo 'the shim was asked' >&2; exit 1;; esac\n\
                  PATH=\"${PATH#*:}\" exec python3 \"$@\"\n";
    let shim = folder.path().join("python3");
    fs::write(&shim, script).expect("write");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("chmod");
    let mut paths = vec![folder.path().to_owned()];
    paths.extend(std::env::split_paths(&path));
    // PATH belongs to the process, so another test runs again in a process of its own.
    let mut test = Command::new(std::env::current_exe().expect("a path"));
    test.args(["--exact", "packages_of_requirements_txt_are_packed_and_imported"]);
    let output = test.env("PATH", std::env::join_paths(paths).expect("a PATH")).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
