//! Tests of what hooks need on the disk, and what is deleted while the agent runs: the hook tools, the socket of the agent,
//! and files of the charm, which ignores the failures of its tools.

use state::terms::cause::{Cause, Duty};
use std::fs;
use std::path::PathBuf;
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

/// Deploys one unit, whose hooks set its status to the value of the setting `say`. A config-changed waits while the file
/// `hold` exists.
fn deployed() -> Scene {
    let scene = scene();
    let charm = scene.copy_of(&sample("peer"), "peer");
    let program = format!(
        "#!/bin/sh\n[ -e helper ] || exit 1\nif [ $JUJU_HOOK_NAME = config-changed ]; then\n\
         while [ -e {hold} ]; do touch {held}; sleep 0.05; done\nfi\n\
         status-set active \"says $(config-get say)\"\nexit 0\n",
        hold = text(&scene.beside("hold")),
        held = text(&scene.beside("held")),
    );
    fs::write(charm.join("dispatch"), program).expect("it is the test's");
    fs::write(charm.join("helper"), "").expect("it is the test's");
    let options = "options:\n  say: {type: string, default: nothing}\n";
    fs::write(charm.join("config.yaml"), options).expect("it is the test's");
    scene.ok(&["deploy", text(&charm)]);
    scene.until_status("peer/0", "active", "says nothing");
    scene.until("it has started", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    scene.until_status("peer/0", "active", "says nothing");
    scene
}

/// The folder of the links of the tools, and that of the socket, which a link may lead to.
fn deleted_folders(scene: &Scene) -> [PathBuf; 2] {
    let folder = scene.unit_folder("peer/0").expect("it is deployed");
    let socket = folder.join("run").canonicalize().expect("the agent listens there");
    [folder.join("../../tools/unit-peer-0"), socket]
}

#[test]
fn tools_and_a_socket_that_were_deleted_are_made_again_for_the_next_hook() {
    let scene = deployed();
    let [tools, socket] = deleted_folders(&scene);
    let mut number = 0;
    for deleted in
        [vec![tools.clone()], vec![tools.join("config-get")], vec![socket.clone()], vec![tools, socket]]
    {
        let agent = scene.agent_pid("peer/0");
        let before = hooks(&scene, "peer/0").len();
        for path in &deleted {
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it is ours");
        }
        number += 1;
        scene.ok(&["config", "peer", &format!("say={number}")]);
        scene.until_status("peer/0", "active", &format!("says {number}"));
        if scene.agent_pid("peer/0") == agent {
            assert_eq!(hooks(&scene, "peer/0").len(), before + 1, "it ran once, with its tools: {deleted:?}");
        }
    }
}

/// If the socket was deleted, the agent restarts: the next agent takes over the run, some of whose tools may have failed.
#[test]
fn a_hook_whose_tools_are_deleted_while_it_runs_is_repeated() {
    let scene = deployed();
    let [tools, socket] = deleted_folders(&scene);
    let (hold, held) = (scene.beside("hold"), scene.beside("held"));
    for (deleted, value) in [(&tools, "tools"), (&socket, "socket")] {
        let (agent, before) = (scene.agent_pid("peer/0"), hooks(&scene, "peer/0").len());
        fs::remove_file(&held).ok();
        fs::write(&hold, "").expect("it is ours");
        scene.ok(&["config", "peer", &format!("say={value}")]);
        scene.until("the hook runs", |_| held.exists().then_some(()));
        fs::remove_dir_all(deleted).expect("it is ours");
        if deleted == &socket {
            let restarted = |host: &Host| host.agent_pid("peer/0").filter(|pid| Some(*pid) != agent);
            scene.until("the agent restarts", restarted);
            scene.until("it listens again", |_| socket.join("agent.socket").exists().then_some(()));
        }
        fs::remove_file(&hold).expect("it is ours");
        scene.until("the hook is repeated", |host| (hooks(host, "peer/0").len() > before + 1).then_some(()));
        scene.until_status("peer/0", "active", &format!("says {value}"));
        assert_eq!(hooks(&scene, "peer/0").len(), before + 2, "it is repeated once: {value}");
    }
}

#[test]
fn a_charm_whose_programs_were_deleted_is_unpacked_again() {
    let scene = deployed();
    let charm = scene.unit_folder("peer/0").expect("it is deployed").join("charm");
    fs::write(charm.join("own"), "of the charm").expect("it is ours");
    for (number, deleted) in ["dispatch", "metadata.yaml"].into_iter().enumerate() {
        let before = hooks(&scene, "peer/0");
        fs::remove_file(charm.join(deleted)).expect("it was unpacked");
        scene.ok(&["config", "peer", &format!("say={number}")]);
        scene.until_status("peer/0", "active", &format!("says {number}"));
        assert!(charm.join(deleted).exists(), "{deleted}");
        let ran = hooks(&scene, "peer/0").split_off(before.len());
        assert_eq!(ran, ["upgrade-charm", "config-changed"], "as after its folder was deleted: {deleted}");
    }
    assert_eq!(fs::read_to_string(charm.join("own")).expect("it is kept"), "of the charm");
}

/// It ends well, because its shell has the rest of the script open. Another one may have skipped what it did not find.
#[test]
fn a_hook_whose_program_is_deleted_while_it_runs_is_repeated_with_the_whole_charm() {
    let scene = deployed();
    let dispatch = scene.unit_folder("peer/0").expect("it is deployed").join("charm/dispatch");
    let (hold, held, before) = (scene.beside("hold"), scene.beside("held"), hooks(&scene, "peer/0").len());
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "peer", "say=twice"]);
    scene.until("the hook runs", |_| held.exists().then_some(()));
    fs::remove_file(&dispatch).expect("it was unpacked");
    fs::remove_file(&hold).expect("it is ours");
    scene.until("the hook is repeated", |host| (hooks(host, "peer/0").len() > before + 1).then_some(()));
    scene.until_status("peer/0", "active", "says twice");
    assert!(dispatch.exists());
    assert_eq!(hooks(&scene, "peer/0").split_off(before), ["config-changed", "config-changed"]);
}

/// The remedy of a lost archive is to upload it again.
#[test]
fn the_folder_of_the_archives_is_made_again_for_an_upload() {
    let scene = deployed();
    let archives = scene.dir.join("controller/archives");
    fs::remove_dir_all(&archives).expect("it is ours");
    scene.ok(&["refresh", "peer", "--path", text(&scene.beside("peer"))]);
    assert_eq!(fs::read_dir(&archives).expect("it is there again").count(), 1);
    scene.ok(&["add-unit", "peer"]);
    scene.until_status("peer/1", "active", "says nothing");
}

#[test]
fn a_file_in_the_place_of_the_run_folders_is_named_by_its_path() {
    let scene = deployed();
    let folder = scene.unit_folder("peer/0").expect("it is deployed");
    let (runs, aside) = (folder.join("hooks"), folder.join("aside"));
    fs::rename(&runs, &aside).expect("it is ours");
    fs::write(&runs, "").expect("it is ours");
    scene.ok(&["config", "peer", "say=again"]);
    scene.until("the path is named", |host| host.ok(&["why", "peer/0"]).contains(text(&runs)).then_some(()));
    fs::remove_file(&runs).expect("it is ours");
    fs::rename(&aside, &runs).expect("it is ours");
    scene.until_status("peer/0", "active", "says again");
}

#[test]
fn missing_keys_of_secrets_are_named_before_a_secret_is_used() {
    let scene = scene();
    scene.ok(&["add-secret", "password", "value=sesame"]);
    let (keys, aside) = (scene.dir.join("controller/secret-keys.yaml"), scene.beside("aside"));
    let named = |causes: Vec<Cause>| {
        let file = text(&keys);
        causes
            .iter()
            .any(|cause| matches!(&cause.duty, Duty::RestoreSecretKeys { file: named } if named == file))
    };
    assert!(!named(scene.causes("model")));
    scene.ok(&["down"]);
    fs::rename(&keys, &aside).expect("it is ours");
    scene.ok(&["up"]);
    assert!(named(scene.causes("model")));
    scene.ok(&["down"]);
    fs::rename(&aside, &keys).expect("it is ours");
    scene.ok(&["up"]);
    assert!(!named(scene.causes("model")));
    assert!(scene.ok(&["show-secret", "password", "--reveal"]).contains("sesame"));
}
