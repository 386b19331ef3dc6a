//! Tests that a unit with pending work does not read idle, that a unit which waits for the hook lock of its machine says so,
//! and that `wait --settled` sees every change made before it (spec/clients.md 2.3, 3.4).

use api::text::status_message::describe;
use state::terms::activity::Activity;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::status_message::StatusMessage;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tests::host::sample;
use tests::scene::{Scene, hooks, scene, text};

/// Deploys a charm whose config-changed waits while the file `hold` is beside its folder.
fn deploy(scene: &Scene, name: &str, more: &[&str]) {
    let charm = scene.copy_of(&sample("peer"), name);
    let hold = scene.beside(&format!("hold-{name}"));
    let program = format!("#!/bin/sh\nwhile [ -e {} ]; do sleep 0.05; done\n", text(&hold));
    let config = "options:\n  n: {type: int, default: 0}\n";
    fs::write(charm.join("config.yaml"), config).expect("it is the test's");
    fs::write(charm.join("dispatch"), program).expect("it is the test's");
    fs::set_permissions(charm.join("dispatch"), fs::Permissions::from_mode(0o755)).expect("it is the test's");
    scene.ok(&[&["deploy", text(&charm), name], more].concat());
}

fn config_changes(scene: &Scene, unit: &str) -> usize {
    hooks(scene, unit).iter().filter(|hook| *hook == "config-changed").count()
}

#[test]
fn settled_is_after_every_change_and_a_waiter_for_the_hook_lock_names_the_holder() {
    let scene = scene();
    deploy(&scene, "one", &[]);
    deploy(&scene, "two", &["--to", "0"]);
    scene.ok(&["wait", "--settled"]);
    for round in 1..=5 {
        let before = config_changes(&scene, "one/0");
        scene.ok(&["config", "one", &format!("n={round}")]);
        scene.ok(&["wait", "--settled"]);
        assert_eq!(config_changes(&scene, "one/0"), before + 1, "round {round}");
    }
    let hold = scene.beside("hold-one");
    fs::write(&hold, "").expect("it is the test's");
    scene.ok(&["config", "one", "n=7"]);
    scene.until("one/0 runs its hook", |host| {
        (host.unit("one/0")?["juju-status"]["current"] == "executing").then_some(())
    });
    scene.ok(&["config", "two", "n=7"]);
    let hook = || Activity::hook(HookName::ConfigChanged);
    let holder = UnitName::new("one", 0);
    let message = describe(&StatusMessage::WaitingForHookLock {
        group: None,
        activity: hook(),
        running: hook(),
        holder,
    });
    let waits = scene.unit("two/0").expect("it exists");
    assert_eq!(waits["juju-status"]["current"], "allocating", "{waits}");
    assert_eq!(waits["juju-status"]["message"], message.as_str(), "{waits}");
    assert!(scene.ok(&["status", "--no-settle"]).contains(&message), "the table says it, too");
    scene.refused(&["wait", "--settled", "--timeout", "300ms"]);
    fs::remove_file(&hold).expect("it is the test's");
    scene.ok(&["wait", "--settled"]);
    assert_eq!(scene.unit("two/0").expect("it exists")["juju-status"]["current"], "idle");
}
