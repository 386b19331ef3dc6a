//! What programs that drive `juju` are promised (spec/clients.md), kept by the real programs.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, programs, sample};

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// Two related applications that have said all they have to say.
fn pair(dir: &TempDir) -> Host {
    let host = Host::up(&dir.path().canonicalize().expect("it was just made").join("data"));
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host
}

/// The write goes to web, its effect is in db, two hooks later: what a status before that would say is wrong.
#[test]
fn the_first_status_after_a_write_shows_what_came_of_it() {
    let dir = TempDir::with_prefix("pintle-settle-").expect("there is room for a test");
    let host = pair(&dir);
    for color in ["blue", "red", "black"] {
        host.ok(&["config", "web", &format!("color={color}")]);
        let unit = host.unit("db/0").expect("it is deployed");
        assert_eq!(unit["workload-status"]["message"], format!("web likes {color}"), "{unit}");
        assert_eq!(unit["juju-status"]["current"], "idle", "{unit}");
    }
}

/// jubilant itself, unchanged, finds our program as `juju` on the PATH.
#[test]
fn a_suite_of_jubilant_passes() {
    let dir = TempDir::with_prefix("pintle-jubilant-").expect("there is room for a test");
    let host = Host::up(&dir.path().canonicalize().expect("it was just made").join("data"));
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("it is a new folder");
    std::os::unix::fs::symlink(programs().join("pintle"), bin.join("juju")).expect("it is a new folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let jubilant = here.join("../target/jubilant");
    assert!(jubilant.is_dir(), "jubilant is not there: tests/prerequisites.sh installs it");
    let path = std::env::var("PATH").expect("there is a PATH");
    let output = Command::new("python3")
        .arg(here.join("jubilant/suite.py"))
        .arg(sample("any").join(".."))
        .env("PATH", format!("{}:{path}", text(&bin)))
        .env("PYTHONPATH", &jubilant)
        .env("PINTLE_DATA", &host.dir)
        .output()
        .expect("python3 is there: tests/prerequisites.sh");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.ends_with("the suite passed\n"),
        "{said}\n{}",
        host.diagnostics()
    );
}
