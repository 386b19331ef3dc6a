//! Tests lost and duplicated messages, and an unreachable controller.

use crate::proxy::{Proxy, connect_agents_to};
use tests::host::sample;
use tests::scene::{scene, text};
use tests::tally_scenario::{deploy, ran, relate_change_and_remove};

#[test]
fn two_units_live_by_the_spec() {
    let scene = scene();
    deploy(&scene, "db", &[]);
    deploy(&scene, "web", &[]);
    relate_change_and_remove(&scene, "db", "web");
}

#[test]
fn two_units_live_the_same_when_every_answer_is_lost_once_and_every_request_comes_twice() {
    let scene = scene();
    // two machines, whose agents are connected through the proxy before the observed units are deployed
    scene.ok(&["deploy", text(&sample("hello")), "--num-units", "2"]);
    scene.until_status("hello/0", "active", "Hello");
    scene.until_status("hello/1", "active", "Hello");
    let proxy = Proxy::before(&scene);
    connect_agents_to(&scene, &proxy.address);
    deploy(&scene, "db", &["--to", "0"]);
    deploy(&scene, "web", &["--to", "1"]);
    relate_change_and_remove(&scene, "db", "web");
    for unit in ["db/0", "web/0"] {
        let actions = ran(&scene, unit).iter().filter(|name| *name == "count").count();
        assert_eq!(actions, 1, "an action of {unit} was asked for once, and ran once");
    }
    // each hook is one record, and each record's first answer was lost
    let commits = proxy.seen("commit");
    let hooks = ran(&scene, "db/0").len() + ran(&scene, "web/0").len();
    assert!(commits.lost >= hooks, "{commits:?}, {hooks} hooks");
    // each was sent again, except the last one of each unit, whose effect may be visible before its answer
    assert!(commits.doubled + 2 >= 2 * commits.lost, "{commits:?}");
    for kind in ["attach", "unit-token", "claim", "remove-unit"] {
        assert!(proxy.seen(kind).lost >= 1, "{kind}: {:?}", proxy.seen(kind));
    }
}
