//! Tests the guarantees for programs that drive `juju` (spec/clients.md), with the real programs.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, programs, sample};

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// Two related applications whose hooks have all run.
fn pair(dir: &TempDir) -> Host {
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host
}

/// The request changes web, and its effect appears in db two hooks later. A status before that would be outdated.
#[test]
fn the_first_status_after_a_write_shows_its_effects() {
    let dir = TempDir::with_prefix("pintle-settle-").expect("a temporary folder can be created");
    let host = pair(&dir);
    for color in ["blue", "red", "black"] {
        host.ok(&["config", "web", &format!("color={color}")]);
        let unit = host.unit("db/0").expect("it is deployed");
        assert_eq!(unit["workload-status"]["message"], format!("web likes {color}"), "{unit}");
        assert_eq!(unit["juju-status"]["current"], "idle", "{unit}");
    }
}

/// The unmodified jubilant library finds `pintle` as `juju` on the PATH.
#[test]
fn the_jubilant_suite_passes() {
    let dir = TempDir::with_prefix("pintle-jubilant-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("it is a new folder");
    std::os::unix::fs::symlink(programs().join("pintle"), bin.join("juju")).expect("it is a new folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let jubilant = here.join("../target/jubilant");
    assert!(jubilant.is_dir(), "jubilant is not installed; run tests/prerequisites.sh");
    let path = std::env::var("PATH").expect("there is a PATH");
    let output = Command::new("python3")
        .arg(here.join("jubilant/suite.py"))
        .arg(sample("any").join(".."))
        .env("PATH", format!("{}:{path}", text(&bin)))
        .env("PYTHONPATH", &jubilant)
        .env("PINTLE_DATA", &host.dir)
        .output()
        .expect("python3 is installed by tests/prerequisites.sh");
    let stdout =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && stdout.ends_with("suite passed\n"),
        "{stdout}\n{}",
        host.diagnostics()
    );
}
