//! Tests destroy-model with the real programs: no process and no folder of the model may remain; and what is shown while an
//! agent delays it.

use api::text::refusal::message;
use state::terms::cause::{Actor, Cause, Entity};
use state::terms::names::UnitName;
use state::terms::refusal::model::ModelRefusal;
use state::terms::refusal::{EntityKind, RefusalReason};
use std::time::{Duration, Instant};
use tests::host::{is_root, sample};
use tests::scene::{scene, text};

/// pytest-jubilant destroys its model with `--force` after each module of tests, so this must be short. Force waits up to
/// 60 s for agents that can still act, and not at all for a unit in error.
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
    assert!(output.stderr.lines().last().is_some_and(|line| line.contains("shop")), "{output:?}");
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
    assert!(output.stderr.contains(" 2 units, 3 machines"), "{output:?}");
    assert!(output.stderr.lines().last().is_some_and(|line| line.contains("shop")), "{output:?}");
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    assert_eq!(machines(), 0);
    let agents = |host: &tests::host::Host| {
        host.processes().into_iter().filter(|line| line.contains("machines/")).collect::<Vec<_>>()
    };
    assert_eq!(agents(&host), Vec::<String>::new());
    let not_found = message(&RefusalReason::NotFound { kind: EntityKind::Model, name: "shop".to_owned() });
    assert!(host.refused(&["status", "-m", "shop"]).contains(&not_found));
    assert!(host.refused(&["destroy-model", "shop", "--no-prompt"]).contains(&not_found));

    // a command without a model does not fall back to another one, and the provisioner continues without any model
    let without_model = host.pintle(&["status"]);
    assert_eq!((without_model.code, without_model.stdout.as_str()), (1, ""), "{without_model:?}");
    host.ok(&["destroy-model", "dev", "--no-prompt"]);

    // the first model does not come back with the next start
    host.ok(&["down"]);
    let up = host.pintle(&["up"]);
    assert_eq!(up.stderr.lines().filter(|line| line.starts_with("WARNING ")).count(), usize::from(is_root()));
    let models: serde_json::Value =
        serde_json::from_str(&host.ok(&["models", "--format", "json"])).expect("JSON");
    assert_eq!(models["models"], serde_json::json!([]));
    let refused = host.pintle(&["deploy", text(&sample("hello"))]);
    assert!(refused.stderr.contains("pintle add-model "), "{refused:?}");

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
    assert!(output.stderr.contains(" 1 application, 1 unit"), "{output:?}");
    let unit = UnitName::new("db", 0);
    let causes = host.causes("model");
    let is_of_agent = |cause: &Cause| {
        (&cause.entity, &cause.actor) == (&Entity::Unit(unit.clone()), &Actor::UnitAgent(unit.clone()))
    };
    assert!(causes.iter().any(is_of_agent), "{causes:?}");
    let late = host.refused(&["deploy", text(&sample("pair-web")), "web"]);
    let being_removed = ModelRefusal::BeingRemoved { name: "shop".to_owned() };
    assert!(late.contains(&message(&being_removed.into())), "{late}");
    let models = host.ok(&["models"]);
    assert!(models.lines().any(|line| line.starts_with("shop") && line.contains("destroying")), "{models}");

    let output = host.pintle(&["destroy-model", "shop", "--no-prompt", "--force", "--no-wait"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(!host.ok(&["models"]).contains("shop"));
    let agent = std::path::PathBuf::from(format!("/proc/{agent}"));
    host.until("its agent is gone", |_| (!agent.exists()).then_some(()));
}
