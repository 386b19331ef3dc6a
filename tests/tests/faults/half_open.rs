//! Tests connections that stall without being closed, and connections that are accepted and never answered: an agent
//! can detect them only by a timeout, and continues over another connection.

use crate::proxy::reconfigure_and_restart;
use crate::stalling_proxy::{ConnectionMode, StallingProxy};
use api::WATCH_SILENCE_MS;
use api::text::activity::running;
use state::terms::activity::Activity;
use state::terms::hook_name::HookName;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::host::sample;
use tests::scene::{Scene, scene, text};
use tests::tally::{STARTED, counted, deploy, logged, results, until_ran};

/// The time limit of a silent watch, and 8 s for the hooks that follow, which take a second. Whoever waits on two silent
/// connections in turn takes longer: the limit, less the time between two heartbeats, and the limit again.
const RECOVERY_MAX: Duration = Duration::from_millis(WATCH_SILENCE_MS + 8_000);

/// Two machines, each with its own proxy to the controller, and a unit of tally on each: db/0 and web/0. Their
/// config-changed hook runs while the returned file exists.
fn proxied_scene() -> (Scene, [StallingProxy; 2], PathBuf) {
    let scene = scene();
    let hold = scene.beside("hold");
    let proxies = [StallingProxy::start(&scene), StallingProxy::start(&scene)];
    scene.ok(&["deploy", text(&sample("hello")), "--num-units", "2"]);
    for (number, (proxy, name)) in proxies.iter().zip(["db", "web"]).enumerate() {
        let unit = format!("hello/{number}");
        scene.until_status(&unit, "active", "Hello");
        let folder = scene.unit_folder(&unit).expect("it is deployed");
        let machine = folder.parent().and_then(|agents| agents.parent()).expect("two up");
        reconfigure_and_restart(&scene, machine, |config| config.controllers = vec![proxy.address.clone()]);
        deploy(
            &scene,
            name,
            &["--to", &machine_of(&scene, &unit), "--config", &format!("hold={}", text(&hold))],
        );
    }
    for unit in UNITS {
        until_ran(&scene, unit, &STARTED);
    }
    (scene, proxies, hold)
}

const UNITS: [&str; 2] = ["db/0", "web/0"];

/// Returns the machine of a unit.
fn machine_of(scene: &Scene, unit: &str) -> String {
    let machine = scene.unit(unit).expect("it is deployed")["machine"].clone();
    machine.as_str().expect("a number").to_owned()
}

/// Changes a setting of both applications, and returns the time.
fn set_configs(scene: &Scene, value: &str) -> Instant {
    for name in ["db", "web"] {
        scene.ok(&["config", name, &format!("say={value}")]);
    }
    Instant::now()
}

/// Deploys one more unit to each machine, which its machine agent must start.
fn deploy_late_units(scene: &Scene) {
    for (name, unit) in ["late-db", "late-web"].iter().zip(UNITS) {
        deploy(scene, name, &["--to", &machine_of(scene, unit)]);
    }
}

/// Waits until the late units are started and db/0 and web/0 have run `more` beyond their start. Checks that this took
/// less than [`RECOVERY_MAX`] since `since`, and that each hook took effect once.
fn until_recovered(scene: &Scene, since: Instant, more: &[&str]) {
    let hooks = [&STARTED, more].concat();
    for late in ["late-db/0", "late-web/0"] {
        until_ran(scene, late, &STARTED);
    }
    for unit in UNITS {
        until_ran(scene, unit, &hooks);
    }
    let took = since.elapsed();
    println!("recovered after {took:?}");
    assert!(took < RECOVERY_MAX, "{took:?}");
    for unit in UNITS {
        assert_eq!(results(scene, unit, "count")["hooks"], hooks.len().to_string(), "{unit}");
        assert_eq!(logged(scene, unit), counted(&hooks), "{unit}");
    }
}

/// 1. A hook runs. All connections of its agent stall: one unit's in both directions, the other's for responses only.
/// 2. The hook ends: its record is sent into the stalled connection, where it is lost, or takes effect without a
///    response.
/// 3. Settings are changed and units deployed; the stalled connections do not forward this.
#[test]
fn stalled_connections_are_given_up_and_each_record_takes_effect_once() {
    let (scene, [db, web], hold) = proxied_scene();
    fs::write(&hold, "").expect("it is ours");
    set_configs(&scene, "one");
    for unit in UNITS {
        // shown only after the response to the request that reports the hook: the connection is idle, and the next
        // request uses it
        scene.until(format_args!("{unit} is shown to run it"), |host| {
            let shown = &host.unit(unit)?["juju-status"]["message"];
            (*shown == running(&Activity::hook(HookName::ConfigChanged))).then_some(())
        });
    }
    db.stall();
    web.stall_responses();
    fs::remove_file(&hold).expect("it was made");
    scene.until("records are sent into the stalled connections", |_| {
        (db.dropped_bytes().0 > 0 && web.dropped_bytes().1 > 0).then_some(())
    });
    let changed = set_configs(&scene, "two");
    deploy_late_units(&scene);
    until_recovered(&scene, changed, &["config-changed", "config-changed"]);
}

/// 1. Every connection is closed. New connections of one machine's agents stall at once, those of the other's after the
///    handshake.
/// 2. Settings are changed and units deployed. From then on new connections are forwarded; the stalled ones stay
///    stalled.
#[test]
fn connections_that_are_accepted_and_never_answered_are_given_up() {
    let (scene, [first, second], _) = proxied_scene();
    first.reset_connections(ConnectionMode::Stall);
    second.reset_connections(ConnectionMode::StallAfterHandshake);
    set_configs(&scene, "one");
    deploy_late_units(&scene);
    // the watch of each agent, and the second connection of an agent that gave up its first one
    scene.until("agents use stalled connections", |_| {
        (first.stalled_connections() >= 4 && second.stalled_connections() >= 3).then_some(())
    });
    first.set_mode(ConnectionMode::Forward);
    second.set_mode(ConnectionMode::Forward);
    until_recovered(&scene, Instant::now(), &["config-changed"]);
}
