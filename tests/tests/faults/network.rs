//! Messages that are lost and doubled, and a controller that is away.

use crate::proxy::{Proxy, lead_agents_to};
use crate::story::{STARTED, counted, deploy, logged, ran, results, until_ran};
use serde_json::Value;
use std::fs;
use tests::host::{Host, sample};
use tests::scene::{Scene, scene, text};

/// A bag of `other` as `unit` sees it.
fn bag(host: &Host, unit: &str, other: &str) -> Value {
    let shown = host.ok(&["show-unit", unit, "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("show-unit prints JSON");
    shown[unit]["relation-info"][0]["related-units"][other]["data"].clone()
}

/// Relates, changes a setting and removes one side; at each step the hooks are exactly the ones of the spec.
fn two_units_live(scene: &Scene) {
    let mut db = STARTED.to_vec();
    let mut web = STARTED.to_vec();
    until_ran(scene, "db/0", &db);
    until_ran(scene, "web/0", &web);
    scene.ok(&["integrate", "web:in", "db:out"]);
    db.extend(["out-relation-created", "out-relation-joined", "out-relation-changed"]);
    web.extend(["in-relation-created", "in-relation-joined", "in-relation-changed"]);
    until_ran(scene, "db/0", &db);
    until_ran(scene, "web/0", &web);
    scene.ok(&["config", "web", "say=once"]);
    db.push("out-relation-changed");
    web.push("config-changed");
    until_ran(scene, "web/0", &web);
    until_ran(scene, "db/0", &db);
    assert_eq!(bag(scene, "db/0", "web/0")["said"], "once");
    assert_eq!(results(scene, "web/0", "count")["hooks"], web.len().to_string());
    let folder = scene.unit_folder("web/0").expect("it is deployed");
    let log = fs::read_to_string(folder.join("agent.log")).expect("agents have a log");
    assert!(!log.contains("ERROR"), "{log}");
    let counts = ["count"];
    assert_eq!(ran(scene, "web/0")[web.len()..], counts, "an action runs once");
    scene.ok(&["remove-application", "web", "--no-prompt"]);
    web.extend(["in-relation-departed", "in-relation-broken", "stop", "remove"]);
    db.extend(["out-relation-departed", "out-relation-broken"]);
    until_ran(scene, "db/0", &db);
    scene.until("web is gone", |host| {
        let gone = host.status()["applications"]["web"].is_null() && host.unit_folder("web/0").is_none();
        gone.then_some(())
    });
    let ran_of_web: Vec<String> = ran(scene, "web/0").into_iter().filter(|name| name != "count").collect();
    assert_eq!(ran_of_web, web);
    assert_eq!(results(scene, "db/0", "count")["hooks"], db.len().to_string(), "each effect is there once");
    assert_eq!(logged(scene, "db/0"), counted(&db), "each line is there once");
    assert_eq!(logged(scene, "web/0"), counted(&web), "each line is there once");
    let units = scene.status()["applications"]["db"]["units"].clone();
    assert_eq!(units["db/0"]["workload-status"]["current"], "active");
}

#[test]
fn two_units_live_by_the_spec() {
    let scene = scene();
    deploy(&scene, "db", &[]);
    deploy(&scene, "web", &[]);
    two_units_live(&scene);
}

#[test]
fn two_units_live_the_same_when_every_answer_is_lost_once_and_every_request_comes_twice() {
    let scene = scene();
    // two machines, whose agents find the controller behind the proxy before they deploy what is looked at
    scene.ok(&["deploy", text(&sample("hello")), "--num-units", "2"]);
    scene.until_status("hello/0", "active", "Hello");
    scene.until_status("hello/1", "active", "Hello");
    let proxy = Proxy::before(&scene);
    lead_agents_to(&scene, &proxy.address);
    deploy(&scene, "db", &["--to", "0"]);
    deploy(&scene, "web", &["--to", "1"]);
    two_units_live(&scene);
    // each hook is one record, and each record's first answer was lost
    let commits = proxy.seen("commit");
    let hooks = ran(&scene, "db/0").len() + ran(&scene, "web/0").len();
    assert!(commits.lost >= hooks, "{commits:?}, {hooks} hooks");
    // sent again, but for the last one of each unit: its effect may be seen before its answer
    assert!(commits.doubled + 2 >= 2 * commits.lost, "{commits:?}");
    for kind in ["attach", "unit-token", "claim", "remove-unit"] {
        assert!(proxy.seen(kind).lost >= 1, "{kind}: {:?}", proxy.seen(kind));
    }
}
