//! Tests of damaged and foreign files in the folder of a local machine: each is written again, and the machine goes on.

use api::AgentConfig;
use std::fs;
use std::path::{Path, PathBuf};
use tests::scene::{Scene, scene};
use tests::tally::{STARTED, deploy, ran, until_ran};

/// The folder of the machine of a unit.
fn machine_folder(scene: &Scene, unit: &str) -> PathBuf {
    let folder = scene.unit_folder(unit).expect("it is deployed");
    folder.ancestors().nth(2).expect("units are in machines").to_path_buf()
}

fn agent_of(scene: &Scene, machine: &Path) -> i32 {
    scene.until("the machine agent runs", |host| host.pid(&machine.join("machine.pid")))
}

#[test]
fn a_truncated_record_of_an_instance_is_written_again() {
    let scene = scene();
    deploy(&scene, "db", &[]);
    until_ran(&scene, "db/0", &STARTED);
    let file = machine_folder(&scene, "db/0").join("instance.yaml");
    let before = fs::read_to_string(&file).expect("it exists");
    scene.ok(&["down"]);
    fs::write(&file, &before[..before.len() / 2]).expect("it is ours");
    scene.ok(&["up"]);
    scene.until("it is written again", |_| (fs::read_to_string(&file).ok()? == before).then_some(()));
    scene.ok(&["config", "db", "say=again"]);
    until_ran(&scene, "db/0", &[&STARTED[..], &["config-changed"]].concat());
    // while the system runs, a change of the model is a reason to look at all machines
    fs::write(&file, "model").expect("it is ours");
    scene.ok(&["add-unit", "db"]);
    scene.until("it is written again", |_| (fs::read_to_string(&file).ok()? == before).then_some(()));
    until_ran(&scene, "db/1", &["install", "config-changed", "start"]);
    scene.ok(&["remove-unit", "db/0", "--no-prompt"]);
    scene.until("it is removed", |host| host.unit("db/0").is_none().then_some(()));
}

#[test]
fn the_file_of_another_machine_is_refused_and_written_again() {
    let scene = scene();
    deploy(&scene, "db", &["-n", "2"]);
    for unit in ["db/0", "db/1"] {
        // What its process has written, and not only that it was started.
        scene.until("it has started", |_| (ran(&scene, unit).last()? == "start").then_some(()));
    }
    let (first, second) = (machine_folder(&scene, "db/0"), machine_folder(&scene, "db/1"));
    let config = |machine: &Path| fs::read_to_string(machine.join(AgentConfig::FILE)).expect("it exists");
    let (of_first, of_second, agent) = (config(&first), config(&second), agent_of(&scene, &first));
    let before = [ran(&scene, "db/0"), ran(&scene, "db/1")];
    fs::write(second.join(AgentConfig::FILE), &of_first).expect("it is ours");
    scene.kill(agent_of(&scene, &second));
    let line = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    scene.until("it is written again", |_| {
        let found = config(&second);
        (found != of_first && line(&found, "uuid:") == line(&of_second, "uuid:")).then_some(())
    });
    assert!(!second.join("agents/unit-db-0").exists(), "it has not acted for the other machine");
    assert_eq!(agent_of(&scene, &first), agent);
    scene.ok(&["config", "db", "say=again"]);
    for (unit, before) in ["db/0", "db/1"].into_iter().zip(before) {
        until_ran(
            &scene,
            unit,
            &before.iter().map(String::as_str).chain(["config-changed"]).collect::<Vec<_>>(),
        );
    }
}
