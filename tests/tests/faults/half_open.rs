//! Tests connections that are dead without having been closed, and connections that are accepted and never answered: an
//! agent detects them by a timeout alone and continues over another connection.

use crate::proxy::lead_agent;
use crate::wire::{Makes, Wire};
use api::WATCH_SILENCE_MS;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::host::sample;
use tests::scene::{Scene, scene, text};
use tests::tally_scenario::{STARTED, counted, deploy, logged, results, until_ran};

/// The timeout, doubled for a busy machine: the hooks that follow take a second.
const HEARD_WITHIN: Duration = Duration::from_millis(2 * WATCH_SILENCE_MS);

/// Two machines, each with its own network link to the controller, and a unit of tally on each: db/0 and web/0. Their
/// config-changed goes on while the file of the answer exists.
fn wired() -> (Scene, [Wire; 2], PathBuf) {
    let scene = scene();
    let hold = scene.beside("hold");
    let wires = [Wire::to(&scene), Wire::to(&scene)];
    scene.ok(&["deploy", text(&sample("hello")), "--num-units", "2"]);
    for (number, (wire, name)) in wires.iter().zip(["db", "web"]).enumerate() {
        let unit = format!("hello/{number}");
        scene.until_status(&unit, "active", "Hello");
        let folder = scene.unit_folder(&unit).expect("it is deployed");
        let machine = folder.parent().and_then(|agents| agents.parent()).expect("two up");
        lead_agent(&scene, machine, |config| config.controllers = vec![wire.address.clone()]);
        deploy(&scene, name, &["--to", &on(&scene, &unit), "--config", &format!("hold={}", text(&hold))]);
    }
    for unit in UNITS {
        until_ran(&scene, unit, &STARTED);
    }
    (scene, wires, hold)
}

const UNITS: [&str; 2] = ["db/0", "web/0"];

/// Returns the machine of a unit.
fn on(scene: &Scene, unit: &str) -> String {
    let machine = scene.unit(unit).expect("it is deployed")["machine"].clone();
    machine.as_str().expect("a number").to_owned()
}

/// Changes a setting of both applications, and returns the time.
fn say(scene: &Scene, what: &str) -> Instant {
    for name in ["db", "web"] {
        scene.ok(&["config", name, &format!("say={what}")]);
    }
    Instant::now()
}

/// A unit more on each machine, for its agent to hear of.
fn deploy_late(scene: &Scene) {
    for (name, unit) in ["late-db", "late-web"].iter().zip(UNITS) {
        deploy(scene, name, &["--to", &on(scene, unit)]);
    }
}

/// All agents have heard of it in time; each unit ran these beyond its start, and each had its effects once.
fn until_heard(scene: &Scene, since: Instant, more: &[&str]) {
    let hooks = [&STARTED, more].concat();
    for late in ["late-db/0", "late-web/0"] {
        until_ran(scene, late, &STARTED);
    }
    for unit in UNITS {
        until_ran(scene, unit, &hooks);
    }
    let took = since.elapsed();
    println!("heard after {took:?}");
    assert!(took < HEARD_WITHIN, "{took:?}");
    for unit in UNITS {
        assert_eq!(results(scene, unit, "count")["hooks"], hooks.len().to_string(), "{unit}");
        assert_eq!(logged(scene, unit), counted(&hooks), "{unit}");
    }
}

/// 1. A hook runs. All connections of its agent die: one unit's carry nothing, the other's carry requests only.
/// 2. The hook ends: its record is sent into the dead connection, and is lost there, or takes effect unanswered.
/// 3. Settings are changed and units deployed, of which dead connections tell nobody.
#[test]
fn connections_that_die_without_a_word_are_given_up_and_what_went_into_them_takes_effect_once() {
    let (scene, [db, web], hold) = wired();
    fs::write(&hold, "").expect("it is ours");
    say(&scene, "one");
    for unit in UNITS {
        // shown only when the request that says so was answered: its connection is idle and the next request's
        scene.until(format_args!("{unit} is shown to run it"), |host| {
            let shown = &host.unit(unit)?["juju-status"]["message"];
            (shown == "running config-changed hook").then_some(())
        });
    }
    db.dies();
    web.loses_answers();
    fs::remove_file(&hold).expect("it was made");
    scene.until("records go into the dead connections", |_| {
        (db.swallowed().0 > 0 && web.swallowed().1 > 0).then_some(())
    });
    let changed = say(&scene, "two");
    deploy_late(&scene);
    until_heard(&scene, changed, &["config-changed", "config-changed"]);
}

/// 1. Every connection is closed. One machine's agents are given connections on which nobody says anything, the
///    other's are given such that fall silent after the handshake.
/// 2. Settings are changed and units deployed. From then on connections are as they should be; the silent ones stay silent.
#[test]
fn connections_that_are_taken_and_never_answered_are_given_up() {
    let (scene, [silent, deaf], _) = wired();
    silent.begins_anew(Makes::Silent);
    deaf.begins_anew(Makes::Deaf);
    say(&scene, "one");
    deploy_late(&scene);
    // of each agent its watch, and a second time of one that gave the first up
    scene.until("their connections are silent", |_| {
        (silent.caught() >= 4 && deaf.caught() >= 3).then_some(())
    });
    silent.makes(Makes::Whole);
    deaf.makes(Makes::Whole);
    until_heard(&scene, Instant::now(), &["config-changed"]);
}
