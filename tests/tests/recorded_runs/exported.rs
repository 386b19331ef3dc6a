//! A run that was exported is a test of the charm, which passes as long as the charm does the same.

use super::{charm, newest, runs_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::host::{Host, sample};
use tests::scene::{Scene, scene, text};

const CHARM: &str = r#"
import ops


class Web(ops.CharmBase):
    def __init__(self, framework: ops.Framework):
        super().__init__(framework)
        on = self.on
        framework.observe(on.leader_elected, self._elected)
        framework.observe(on.config_changed, self._configured)
        framework.observe(on["db"].relation_changed, self._related)
        framework.observe(on["cluster"].relation_created, self._joined)
        framework.observe(on["data"].storage_attached, self._attached)
        framework.observe(on["greet"].action, self._greet)
        framework.observe(on["refuse"].action, self._refuse)

    def _elected(self, _):
        self.app.add_secret({"password": "canary-11aa-generated"}, label="login")
        self.app.status = ops.ActiveStatus("elected")

    def _configured(self, _):
        self.unit.open_port("tcp", 8080)
        self.unit.set_workload_version("1.2")
        if self.config["limit"] > 5 and self.config["fails"]:
            raise RuntimeError("it fails")
        self.unit.status = ops.ActiveStatus(f"{self.config['greeting']} \"é\"")

    def _related(self, event):
        host = event.relation.data[event.unit].get("host") if event.unit else None
        event.relation.data[self.unit]["color"] = "green"
        if self.unit.is_leader():
            secret = self.model.get_secret(label="login")
            event.relation.data[self.app]["copy"] = secret.get_content()["password"]
            event.relation.data[self.app]["address"] = str(
                self.model.get_binding(event.relation).network.ingress_address
            )
        self.unit.status = ops.ActiveStatus(f"uses {host}")

    def _joined(self, event):
        event.relation.data[self.unit]["seen"] = "yes"

    def _attached(self, event):
        self.unit.status = ops.MaintenanceStatus(f"has {event.storage.name}")

    def _greet(self, event):
        event.set_results({"message": f"{self.config['greeting']}, {event.params['name']}!"})

    def _refuse(self, event):
        event.fail("no")


if __name__ == "__main__":
    ops.main(Web)
"#;
const METADATA: &str = "
name: web
summary: s
description: d
requires: {db: {interface: pair}}
peers: {cluster: {interface: cluster}}
storage: {data: {type: filesystem}}
";
const CONFIG: &str = "
options:
  greeting: {type: string, default: Hello}
  limit: {type: int, default: 3}
  fails: {type: boolean, default: false}
  unset: {type: string}
";
const ACTIONS: &str = "
greet: {description: d, params: {name: {type: string, default: world}}}
refuse: {description: d}
";

fn suite() -> PathBuf {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ops-suite");
    suite.canonicalize().expect("run tests/prerequisites.sh")
}

/// Runs the exported test in the folder of the charm. Returns whether it passes, and what pytest prints.
fn pytest(folder: &Path, test: &Path) -> (bool, String) {
    let output = Command::new("python3")
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", text(test)])
        .current_dir(folder)
        .env("PYTHONPATH", format!("src:lib:{}", text(&suite())))
        .output()
        .expect("python3 is installed by tests/prerequisites.sh");
    (output.status.success(), super::printed(&output))
}

fn export(scene: &Scene, run: &str) -> PathBuf {
    let file = scene.beside(&format!("test_run_{run}.py"));
    scene.ok(&["export-run", "web/0", run, "-o", text(&file)]);
    file
}

fn deployed() -> (Scene, PathBuf) {
    let scene = scene();
    let dispatch = format!("#!/bin/sh\nPYTHONPATH=src:{} exec python3 ./src/charm.py\n", text(&suite()));
    let files = [
        ("metadata.yaml", METADATA),
        ("config.yaml", CONFIG),
        ("actions.yaml", ACTIONS),
        ("src/charm.py", CHARM),
        ("dispatch", &dispatch),
    ];
    let folder = charm(&scene, "web", &files);
    scene.ok(&["model-config", "automatically-retry-hooks=false"]);
    scene.ok(&["deploy", text(&folder), "--config", "greeting=Good day"]);
    (scene, folder)
}

#[test]
fn an_exported_run_is_a_test_that_passes_while_the_charm_does_the_same() {
    let (scene, folder) = deployed();
    scene.ok(&["deploy", text(&sample("pair-db")), "db"]);
    scene.ok(&["integrate", "web", "db"]);
    scene.until("it is related", |host: &Host| {
        let unit = host.unit("web/0")?;
        let message = unit["workload-status"]["message"].as_str()?.to_owned();
        (message.starts_with("uses 127.") && unit["juju-status"]["current"] == "idle").then_some(())
    });
    scene.ok(&["run", "web/0", "greet", "name=\"you\""]);
    scene.ok(&["run", "web/0", "refuse"]);
    let operations = [
        "install",
        "data-storage-attached",
        "cluster-relation-created",
        "leader-elected",
        "config-changed",
        "start",
        "db-relation-created",
        "db-relation-joined",
        "db-relation-changed",
        "action greet",
        "action refuse",
    ];
    for operation in operations {
        let run = newest(&scene, "web/0", operation);
        let replayed = scene.pintle(&["replay", "web/0", &run]);
        assert_eq!(replayed.code, 0, "{operation}: {replayed:?}");
        let test = export(&scene, &run);
        let source = fs::read_to_string(&test).expect("it was written");
        // the charm has published the content: only a run that uses the secret can recognise it
        let uses_secret = ["leader-elected", "db-relation-changed"].contains(&operation);
        assert!(!uses_secret || !source.contains("canary-11aa"), "{source}");
        let (passes, printed) = pytest(&folder, &test);
        assert!(passes, "{operation}: {printed}\n{source}");
    }
    // the later runs find what the first one has set
    let test = export(&scene, &runs_of(&scene, "web/0", "db-relation-changed")[0]);
    let program = folder.join("src/charm.py");
    for (old, new) in [
        ("uses {host}", "with {host}"),
        ("\"green\"", "\"blue\""),
        ("[self.app][\"address\"]", "[self.app][\"at\"]"),
    ] {
        fs::write(&program, CHARM.replace(old, new)).expect("it is ours");
        let (passes, printed) = pytest(&folder, &test);
        assert!(!passes, "{new}: {printed}");
    }
    let run = newest(&scene, "db/0", "config-changed");
    assert_eq!(scene.pintle(&["export-run", "db/0", &run]).code, 1, "it is no charm of ops");
}

#[test]
fn the_test_of_a_failed_run_passes_once_the_charm_is_repaired() {
    let (scene, folder) = deployed();
    scene.until_status("web/0", "active", "Good day \"é\"");
    scene.ok(&["config", "web", "limit=9", "fails=true"]);
    scene.until("it fails", |host| {
        (host.unit("web/0")?["workload-status"]["current"] == "error").then_some(())
    });
    let test = export(&scene, &newest(&scene, "web/0", "config-changed"));
    assert!(!pytest(&folder, &test).0);
    fs::write(folder.join("src/charm.py"), CHARM.replace("raise RuntimeError(\"it fails\")", "pass"))
        .expect("it is ours");
    let (passes, printed) = pytest(&folder, &test);
    assert!(passes, "{printed}");
}
