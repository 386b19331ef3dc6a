//! What programs that drive `juju` are promised (spec/clients.md), kept by the real programs.

use std::path::Path;
use tempfile::TempDir;
use tests::host::{Host, sample};

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
