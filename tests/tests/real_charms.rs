//! Real charms and the test suites of their authors, which are downloaded for the test (spec/charms.md).
//!
//! `tests/prerequisites.sh` unpacks the source distribution of ops into `target/ops-suite`, with what its suites import.
//! The suites run unchanged; the programs `juju` and `charmcraft` that they call are those of `tests/real_charms`.

use agent::hook_process::run_files::{RunFile, read_run_file};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, programs, sample};

/// A machine that is a folder of this host shares its uptime: a reboot is only a new boot of its agents.
const NEEDS_A_MACHINE_OF_ITS_OWN: &str = "test/integration/test_hookcmds.py::test_juju_reboot_queues_reboot";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the tests lie in the repository")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

fn host(dir: &TempDir) -> Host {
    Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"))
}

/// Copies a folder of `tests/real_charms`.
fn copied(name: &str, to: &Path) {
    let from = root().join("tests/real_charms").join(name);
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{name} is copied");
}

#[test]
fn the_suites_of_ops_for_relations_secrets_and_hook_tools_pass() {
    suites_pass(false);
}

/// Their charms have warm parents, which fork most of their hooks.
#[test]
fn the_suites_of_ops_pass_with_warm_dispatch() {
    suites_pass(true);
}

fn suites_pass(is_warm: bool) {
    let suite = root().join("target/ops-suite");
    let sources =
        fs::read_dir(&suite).expect("run tests/prerequisites.sh").flatten().map(|entry| entry.path());
    let ops = sources.into_iter().find(|path| path.join("test/integration").is_dir());
    let ops = ops.expect("tests/prerequisites.sh has unpacked the sources of ops");
    let dir = TempDir::with_prefix("pintle-ops-").expect("there is room for a test");
    let (packed, work) = (dir.path().join("packed"), dir.path().join("ops"));
    fs::create_dir(&packed).expect("it is a new folder");
    let copied = Command::new("cp").arg("-r").arg(&ops).arg(&work).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let host = host(&dir);
    let path = std::env::var("PATH").expect("there is a PATH");
    let (charms, bin) = (root().join("tests/real_charms"), suite.join("bin"));
    let jubilant = root().join("target/jubilant");
    let output = Command::new("python3")
        .args([
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--deselect",
            NEEDS_A_MACHINE_OF_ITS_OWN,
        ])
        .args(["relation", "secrets", "hookcmds"].map(|name| format!("test/integration/test_{name}.py")))
        .current_dir(&work)
        .env("PATH", format!("{}:{}:{path}", text(&charms), text(&bin)))
        .env("PYTHONPATH", format!("{}:{}:{}", text(&jubilant), text(&suite), text(&work)))
        .env("PINTLE", programs().join("pintle"))
        .env("PINTLE_DATA", &host.dir)
        .env("ANY_CHARM", sample("any"))
        .env("PACKED", &packed)
        .env("WARM_DISPATCH", is_warm.to_string())
        // uv trusts what the host trusts, as pip does
        .env("UV_SYSTEM_CERTS", "true")
        .output()
        .expect("python3 is installed by tests/prerequisites.sh");
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 1 of relations, 16 of secrets, 36 of the hook tools, one of which is left out
    assert!(printed.contains("52 passed, 1 deselected"), "{printed}\n{}", host.diagnostics());
    let runs = started_runs(&host.dir);
    let forked = runs.iter().filter(|run| run.is_warm()).count();
    assert_eq!(forked > runs.len() / 4, is_warm, "{forked} of {} runs were forked", runs.len());
}

/// The runs whose folders are below this one.
fn started_runs(folder: &Path) -> Vec<RunFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let runs = below.flat_map(|entry| started_runs(&entry.path()));
    read_run_file(folder).into_iter().chain(runs).collect()
}

/// The storage of a charm is attached before it is installed, and each version of ops finds it where it is.
#[test]
fn charms_on_three_major_versions_of_ops_use_their_storage() {
    let dir = TempDir::with_prefix("pintle-stored-").expect("there is room for a test");
    let host = host(&dir);
    for (application, version) in [("first", "1.5.4"), ("second", "2.0.0"), ("third", "3.9.0")] {
        let charm = dir.path().join(application);
        copied("stored", &charm);
        fs::write(charm.join("requirements.txt"), format!("ops=={version}\n")).expect("there is room");
        host.ok(&["deploy", text(&charm), application, "--storage", "data=2"]);
        let order = "data-storage-attached data-storage-attached install";
        host.until_status(
            &format!("{application}/0"),
            "active",
            &format!("ops {version}: {order}: written written"),
        );
    }
}

#[test]
fn a_bash_charm_calls_the_tools_through_a_python_package() {
    let dir = TempDir::with_prefix("pintle-helpers-").expect("there is room for a test");
    let host = host(&dir);
    let charm = dir.path().join("helpers");
    copied("helpers", &charm);
    host.ok(&["deploy", text(&charm)]);
    host.until_status("helpers/0", "active", "helpers/0 likes green");
    host.ok(&["config", "helpers", "color=red"]);
    host.until_status("helpers/0", "active", "helpers/0 likes red");
    let status = host.status();
    assert_eq!(status["applications"]["helpers"]["version"], "1.2", "{status}");
    let unit = host.unit("helpers/0").expect("it is deployed");
    assert_eq!(unit["open-ports"], serde_json::json!(["8080/tcp"]), "{unit}");
}
