//! Tests destroy-model with the real programs: no process and no folder of the model may remain.

use std::time::{Duration, Instant};
use tests::host::sample;
use tests::scene::{scene, text};

/// What pytest-jubilant may wait for after each module. The grace period that a unit in error does not have is 60 s.
const FORCED_DESTRUCTION_MAX: Duration = Duration::from_secs(5);

#[test]
fn destroying_a_model_by_force_does_not_wait_for_a_unit_in_error() {
    let host = scene();
    host.ok(&["add-model", "shop"]);
    host.ok(&["model-config", "automatically-retry-hooks=false"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("web/0", "active", "connected to 127.0.0.1");
    host.ok(&["deploy", text(&sample("broken")), "--config", "fail-in=start"]);
    host.until("the unit is in error", |host| {
        (host.unit("broken/0")?["workload-status"]["current"] == "error").then_some(())
    });
    let started = Instant::now();
    let output = host.pintle(&["destroy-model", "shop", "--force", "--no-prompt", "--destroy-storage"]);
    let passed = started.elapsed();
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.ends_with("Model shop destroyed\n"), "{output:?}");
    assert!(passed < FORCED_DESTRUCTION_MAX, "destroy-model took {passed:?}");
    assert_eq!(std::fs::read_dir(host.dir.join("machines")).expect("the folder exists").count(), 0);
    let agents = host.processes().into_iter().filter(|line| line.contains("machines/"));
    assert_eq!(agents.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn destroying_a_model_removes_its_applications_agents_and_folders() {
    let host = scene();
    host.ok(&["add-model", "shop"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.ok(&["add-machine"]);
    host.until_status("web/0", "active", "connected to 127.0.0.1");
    let folders = ["web/0", "db/0"].map(|unit| host.unit_folder(unit).expect("it is deployed"));
    let machines = || std::fs::read_dir(host.dir.join("machines")).expect("the folder exists").count();
    assert_eq!(machines(), 3);

    let output = host.pintle(&["destroy-model", "shop", "--no-prompt", "--destroy-storage"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(
        output.stderr.contains("Waiting for model shop to be removed, 2 applications, 2 units, 3 machines")
    );
    assert!(output.stderr.ends_with("Model shop destroyed\n"), "{output:?}");
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    assert_eq!(machines(), 0);
    let agents = |host: &tests::host::Host| {
        host.processes().into_iter().filter(|line| line.contains("machines/")).collect::<Vec<_>>()
    };
    assert_eq!(agents(&host), Vec::<String>::new());
    assert!(host.refused(&["status", "-m", "shop"]).contains("\"shop\" not found"));
    assert!(host.refused(&["destroy-model", "shop", "--no-prompt"]).contains("\"shop\" not found"));

    // a command without a model does not fall back to another one, and the provisioner continues without any model
    assert!(host.refused(&["status"]).contains("no model in focus"));
    host.ok(&["destroy-model", "dev", "--no-prompt"]);

    // the name is free, and a new model of that name gets machines
    host.ok(&["add-model", "shop"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
}

#[test]
fn a_model_with_a_stopped_agent_reports_it_and_is_removed_by_force() {
    let host = scene();
    host.ok(&["add-model", "shop"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.until_status("db/0", "active", "ready");
    let agent = host.agent_pid("db/0").expect("the agent runs");
    host.signal("STOP", agent);
    let output = host.pintle(&["destroy-model", "shop", "--no-prompt", "--timeout", "1s"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("model shop is still being removed, 1 application, 1 unit"), "{output:?}");
    let why = host.ok(&["why", "model"]);
    assert!(why.starts_with("model shop: dying"), "{why}");
    assert!(why.contains("unit db/0 waits for its agent to"), "{why}");
    let late = host.refused(&["deploy", text(&sample("pair-web")), "web"]);
    assert!(late.contains("model shop: it is being removed"), "{late}");
    let models = host.ok(&["models"]);
    assert!(models.lines().any(|line| line.starts_with("shop") && line.contains("destroying")), "{models}");

    let output = host.pintle(&["destroy-model", "shop", "--no-prompt", "--force", "--no-wait"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!host.ok(&["models"]).contains("shop"));
    let agent = std::path::PathBuf::from(format!("/proc/{agent}"));
    host.until("its agent is gone", |_| (!agent.exists()).then_some(()));
}
