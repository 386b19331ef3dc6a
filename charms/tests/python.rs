//! Tests of Python charms that are deployed from their source folder: their packages are installed and packed, and the
//! charm's code imports them. The tests build the packages, so that no package index is needed.

use charms::{ReadOptions, install, read, read_with_progress};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const METADATA: &str = "name: py\nsummary: s\ndescription: d\n";
/// The charm's program prints what it imported instead of calling tools.
const CHARM: &str = "import os, sys, greeter\nprint(greeter.WORD, os.environ['JUJU_DISPATCH_PATH'])\n";

/// Writes a wheel: a zip archive with modules and the three files that describe it.
fn wheel_of(folder: &Path, (name, version): (&str, &str), requires: &[&str], modules: &[(&str, String)]) {
    let info = format!("{name}-{version}.dist-info");
    let requires: String = requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
    let mut members: Vec<(String, String)> =
        modules.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
    members.push((
        format!("{info}/METADATA"),
        format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"),
    ));
    let tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    members.push((format!("{info}/WHEEL"), tags.to_owned()));
    let record: String = members.iter().map(|(path, _)| format!("{path},,\n")).collect();
    members.push((format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n")));
    fs::create_dir_all(folder).expect("mkdir");
    let file = folder.join(format!("{name}-{version}-py3-none-any.whl"));
    let mut zip = zip::ZipWriter::new(File::create(file).expect("created"));
    for (name, text) in members {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).expect("written");
        zip.write_all(text.as_bytes()).expect("written");
    }
    zip.finish().expect("finished");
}

/// The wheel of a module that holds a word.
fn wheel(folder: &Path, word: &str) {
    wheel_of(folder, ("greeter", "1.0"), &[], &[("greeter.py", format!("WORD = {word:?}\n"))]);
}

/// Writes two versions of each of three packages. `exporter` requires the `sdk` of its own version, and both share the
/// namespace package `tracing`.
fn index(folder: &Path) {
    for version in ["1.21", "1.25"] {
        let module = format!("VERSION = '{version}'\n");
        let sdk = format!("sdk=={version}");
        wheel_of(folder, ("sdk", version), &[], &[("tracing/sdk.py", module.clone())]);
        wheel_of(folder, ("exporter", version), &[&sdk], &[("tracing/exporter.py", module.clone())]);
        wheel_of(folder, ("greeter", version), &[], &[("greeter.py", module)]);
    }
}

/// A charm that prints the version of each module in `imports`, for packages of an index of its own.
fn charm_of_index(imports: &[&str], files: &[(&str, &str)]) -> TempDir {
    let prints: Vec<String> = imports.iter().map(|name| format!("{name}.VERSION")).collect();
    let code = format!("import {}\nprint({})\n", imports.join(", "), prints.join(", "));
    let folder = TempDir::new().expect("tempdir");
    index(&folder.path().join("wheels"));
    for (path, text) in [("metadata.yaml", METADATA), ("src/charm.py", &code)].iter().chain(files) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("mkdir");
        fs::write(path, text).expect("write");
    }
    folder
}

/// The path of the charm library with this name.
fn library(name: &str) -> String {
    format!("lib/charms/{name}/v0/{name}.py")
}

/// A requirements file whose packages come from the charm's own index.
fn requirements(lines: &str) -> String {
    format!("--no-index\n--find-links wheels\n{lines}")
}

fn read_with_cache(charm: &Path, cache: &Path) -> Result<charms::CharmSource, Vec<charms::Problem>> {
    read(charm, &ReadOptions { cache: cache.to_owned(), force: false })
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
    let source = read_with_cache(charm, cache).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let unit = TempDir::new().expect("tempdir");
    let deployed = unit.path().join("charm");
    install(&source.archive, &source.sha256, &deployed, 0).expect("installs");
    let mut dispatch = Command::new(deployed.join("dispatch"));
    dispatch.current_dir(&deployed).env("JUJU_DISPATCH_PATH", "hooks/start").env_remove("PYTHONPATH");
    let output = dispatch.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The steps that reading the charm reports.
fn steps(charm: &Path, cache: &Path) -> Vec<String> {
    let steps = RefCell::new(Vec::new());
    let options = ReadOptions { cache: cache.to_owned(), force: false };
    let read = read_with_progress(charm, &options, &|step| steps.borrow_mut().push(step.to_owned()));
    read.unwrap_or_else(|problems| panic!("{problems:#?}"));
    steps.into_inner()
}

/// The number of installed or unfinished sets in the cache.
fn sets(cache: &Path) -> usize {
    let names = fs::read_dir(cache).expect("a folder").map(|entry| entry.expect("readable").file_name());
    names.filter(|name| name != "wheels").count()
}

#[test]
fn packages_of_requirements_txt_are_packed_and_imported() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm(&[("requirements.txt", "./greeter-1.0-py3-none-any.whl\n")]);
    assert_eq!(run(charm.path(), cache.path()), "hello hooks/start");
    // The second deployment takes the packages from the cache.
    assert_eq!(steps(charm.path(), cache.path()), [""; 0]);
    // A wheel with another content is installed again.
    wheel(charm.path(), "goodbye");
    assert_eq!(run(charm.path(), cache.path()), "goodbye hooks/start");
    assert_eq!(sets(cache.path()), 2);
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
    let problems = read_with_cache(charm.path(), cache.path()).expect_err("no such package");
    assert_eq!(problems.len(), 1);
    let line = problems[0].to_string();
    assert!(line.starts_with("requirements.txt: "), "{line}");
    assert!(line.contains("no-such-package-here") && line.lines().count() == 1, "{line}");
    assert_eq!(sets(cache.path()), 0);
}

/// A charm that is corrected and read again and again downloads wheels each time, and may never be installed.
#[test]
fn an_attempt_that_fails_trims_the_cache() {
    let cache = TempDir::new().expect("tempdir");
    let abandoned = cache.path().join("set.new-2147483647");
    fs::create_dir(&abandoned).expect("mkdir");
    let charm = charm(&[("requirements.txt", "--no-index\nno-such-package-here\n")]);
    read_with_cache(charm.path(), cache.path()).expect_err("no such package");
    assert!(!abandoned.exists());
}

#[test]
fn the_charms_own_requirements_decide_and_pydeps_add_what_is_missing() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm_of_index(
        &["greeter", "tracing.sdk", "tracing.exporter"],
        &[
            ("requirements.txt", &requirements("greeter==1.21\nsdk==1.25\n")),
            (&library("greeting"), "PYDEPS = ['greeter>=1.25']\n"),
            (&library("tracing"), "PYDEPS: list = ['exporter']\n"),
        ],
    );
    assert_eq!(run(charm.path(), cache.path()), "1.21 1.25 1.25");
    let expected = format!(
        "{}: requires greeter>=1.25, but greeter 1.21 is installed for the charm and its other libraries",
        library("greeting")
    );
    // The second time the packages come from the cache, and the warning is the same.
    for _ in 0..2 {
        assert_eq!(
            read_with_cache(charm.path(), cache.path()).expect("reads").notes,
            std::slice::from_ref(&expected)
        );
    }
}

/// An `exporter` of 1.21 requires an `sdk` of 1.21: in one call of pip, nothing can be installed.
#[test]
fn pydeps_that_conflict_with_the_requirements_are_installed_in_the_version_that_fits() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm_of_index(
        &["tracing.sdk", "tracing.exporter"],
        &[
            ("requirements.txt", &requirements("sdk==1.25\n")),
            (&library("tracing"), "PYDEPS = ['exporter==1.21']\n"),
        ],
    );
    assert_eq!(run(charm.path(), cache.path()), "1.25 1.25");
    let notes = read_with_cache(charm.path(), cache.path()).expect("reads").notes;
    assert!(notes[0].contains("requires exporter==1.21") && notes[0].contains("exporter 1.25"), "{notes:?}");
}

#[test]
fn pydeps_of_two_libraries_that_conflict_are_added_one_after_the_other() {
    let cache = TempDir::new().expect("tempdir");
    let charm = charm_of_index(
        &["greeter", "tracing.exporter"],
        &[
            ("requirements.txt", &requirements("")),
            (&library("a"), "PYDEPS = ['exporter==1.25']\n"),
            (&library("b"), "PYDEPS = ['sdk==1.21', 'greeter==1.21']\n"),
        ],
    );
    assert_eq!(run(charm.path(), cache.path()), "1.21 1.25");
    let notes = read_with_cache(charm.path(), cache.path()).expect("reads").notes;
    assert!(notes.len() == 1 && notes[0].contains("sdk==1.21"), "{notes:?}");
}

#[test]
fn conflicting_requirements_are_reported_by_package_names() {
    let cache = TempDir::new().expect("tempdir");
    let requirements = requirements("sdk==1.25\nexporter==1.21\n");
    let charm = charm_of_index(&["tracing.sdk"], &[("requirements.txt", &requirements)]);
    let problems = read_with_cache(charm.path(), cache.path()).expect_err("unsolvable");
    assert_eq!(problems.len(), 1);
    let line = problems[0].to_string();
    assert!(
        line.contains("sdk==1.25") && line.contains("exporter 1.21") && line.contains("sdk==1.21"),
        "{line}"
    );
    // A library that needs a package that does not exist cannot run either.
    let charm = charm_of_index(
        &["tracing.sdk"],
        &[
            ("requirements.txt", "--no-index\n--find-links wheels\nsdk\n"),
            (&library("x"), "PYDEPS = ['no-such-package']\n"),
        ],
    );
    let line = read_with_cache(charm.path(), cache.path()).expect_err("unsolvable")[0].to_string();
    assert!(line.contains("no-such-package") && line.contains("PYDEPS"), "{line}");
}

const PYPROJECT: &str = "[project]\nname = \"py\"\nversion = \"0\"\ndependencies = [\"greeter>=1\"]\n\
                         [tool.uv]\nno-index = true\nfind-links = [\"wheels\"]\n";

#[test]
fn a_lock_file_decides_versions() {
    let cache = TempDir::new().expect("tempdir");
    let uv = "version = 1\n[[package]]\nname = \"py\"\nversion = \"0\"\nsource = { virtual = \".\" }\n\
              [[package]]\nname = \"greeter\"\nversion = \"1.21\"\n\
              source = { registry = \"https://example.com/simple\" }\n";
    let poetry = "[[package]]\nname = \"Greeter\"\nversion = \"1.21\"\n";
    let unlocked = charm_of_index(&["greeter"], &[("pyproject.toml", PYPROJECT)]);
    assert_eq!(run(unlocked.path(), cache.path()), "1.25");
    for (file, text) in [("uv.lock", uv), ("poetry.lock", poetry)] {
        let charm = charm_of_index(&["greeter"], &[("pyproject.toml", PYPROJECT), (file, text)]);
        assert_eq!(run(charm.path(), cache.path()), "1.21", "{file}");
    }
    // Both lock files exist: the plugin in charmcraft.yaml determines which one applies.
    let lock_of_another_tool = poetry.replace("1.21", "1.25");
    let charm = charm_of_index(
        &["greeter"],
        &[
            ("pyproject.toml", PYPROJECT),
            ("poetry.lock", &lock_of_another_tool),
            ("uv.lock", uv),
            ("charmcraft.yaml", "parts: {charm: {plugin: poetry}}\n"),
        ],
    );
    assert_eq!(run(charm.path(), cache.path()), "1.25");
    let charm = charm_of_index(&["greeter"], &[("pyproject.toml", PYPROJECT), ("uv.lock", "[[package\n")]);
    let line = read_with_cache(charm.path(), cache.path()).expect_err("not TOML")[0].to_string();
    assert!(line.starts_with("uv.lock: "), "{line}");
}

#[test]
fn another_version_of_python_than_the_charm_requires_is_named() {
    let cache = TempDir::new().expect("tempdir");
    for (requires, is_named) in [
        (">=3.6", false),
        (">=99", true),
        (">=3, <3.4", true),
        ("~=3.4", false),
        ("~=3.4.0", true),
        ("==3.*", false),
        ("!=3.*", true),
        (">3", false),
        ("<=3.4", true),
        ("no version", false),
    ] {
        let project =
            PYPROJECT.replace("[project]\n", &format!("[project]\nrequires-python = \"{requires}\"\n"));
        let charm = charm_of_index(&["greeter"], &[("pyproject.toml", &project)]);
        let notes = read_with_cache(charm.path(), cache.path()).expect("reads").notes;
        assert_eq!(notes.iter().any(|note| note.contains(requires)), is_named, "{notes:?}");
    }
}

#[test]
fn pyproject_decides_versions() {
    let cache = TempDir::new().expect("tempdir");
    let poetry = "[tool.poetry.dependencies]\npython = \"^3.8\"\ngreeter = \"~1.21\"\n\
                  [tool.uv]\nno-index = true\nfind-links = [\"wheels\"]\n";
    let charm = charm_of_index(&["greeter"], &[("pyproject.toml", poetry)]);
    assert_eq!(run(charm.path(), cache.path()), "1.21");
    // The requirements file lists the packages; pyproject.toml bounds their versions.
    let bounded = PYPROJECT.replace("greeter>=1", "greeter<1.25");
    let charm = charm_of_index(
        &["greeter"],
        &[("pyproject.toml", &bounded), ("requirements.txt", &requirements("greeter\n"))],
    );
    assert_eq!(run(charm.path(), cache.path()), "1.21");
}

#[test]
fn fetching_packages_shows_progress() {
    let cache = TempDir::new().expect("tempdir");
    let requirements = requirements("exporter\ngreeter\n");
    let charm = charm_of_index(&["greeter"], &[("requirements.txt", &requirements)]);
    let steps = steps(charm.path(), cache.path());
    assert!(steps[0].contains(" python3."), "{steps:?}");
    assert!(steps.iter().any(|step| step.starts_with("fetching package 3: ")), "{steps:?}");
    assert_eq!(steps.last().map(String::as_str), Some("installing 3 packages"));
}

/// Serves the wheels in a folder as a package index, and counts the downloads of wheels.
fn serve(wheels: PathBuf) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let downloads = Arc::new(AtomicUsize::new(0));
    let counter = downloads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
            let request = lines.next().expect("a request").expect("text");
            lines.find(|line| line.as_ref().is_ok_and(String::is_empty));
            let path = request.split(' ').nth(1).expect("a path").to_owned();
            let (kind, body) = match path.rsplit_once('/').expect("a slash") {
                (_, "") => {
                    let names =
                        fs::read_dir(&wheels).expect("a folder").map(|e| e.expect("readable").file_name());
                    let link = |name: OsString| {
                        let name = name.into_string().expect("UTF-8");
                        format!("<a href=\"/files/{name}\">{name}</a>\n")
                    };
                    let package = path.rsplit('/').nth(1).expect("a name").to_owned();
                    let links = names.map(link).filter(|link| link.contains(&format!("/{package}-")));
                    (
                        "text/html",
                        format!("<!DOCTYPE html><html><body>{}</body></html>", links.collect::<String>())
                            .into_bytes(),
                    )
                }
                (_, file) => {
                    counter.fetch_add(1, Ordering::SeqCst);
                    ("application/octet-stream", fs::read(wheels.join(file)).expect("a wheel"))
                }
            };
            // A time in the future is never too old to be kept.
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
                 Date: Fri, 01 Jan 2100 00:00:00 GMT\r\nCache-Control: max-age=3600\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.into_bytes(), body].concat()).expect("sent");
        }
    });
    (port, downloads)
}

#[test]
fn a_second_charm_takes_the_same_packages_from_the_shared_wheel_cache() {
    let cache = TempDir::new().expect("tempdir");
    let wheels = TempDir::new().expect("tempdir");
    index(wheels.path());
    let (port, downloads) = serve(wheels.path().to_owned());
    let options = format!("--index-url http://127.0.0.1:{port}/simple/\n--trusted-host 127.0.0.1\n");
    let first = charm_of_index(&["greeter"], &[("requirements.txt", &format!("{options}greeter\nsdk\n"))]);
    assert_eq!(run(first.path(), cache.path()), "1.25");
    assert_eq!(downloads.load(Ordering::SeqCst), 2);
    let second =
        charm_of_index(&["greeter"], &[("requirements.txt", &format!("{options}exporter\ngreeter\n"))]);
    assert_eq!(run(second.path(), cache.path()), "1.25");
    assert_eq!(downloads.load(Ordering::SeqCst), 3, "only the exporter is new");
}

/// A version manager puts its own `python3` on PATH. That of pyenv writes a folder after each `pip install`, so that
/// two installations at the same time fail. The packages are therefore installed by the interpreter behind it.
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
