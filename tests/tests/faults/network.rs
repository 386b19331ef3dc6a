//! Tests two related units behind a proxy that loses the first response to each request that changes something, and
//! sends each of these requests twice.

use crate::proxy::{Proxy, connect_agents_to};
use tests::host::sample;
use tests::scene::{scene, text};
use tests::tally::{deploy, ran, relate_change_and_remove};

#[test]
fn two_units_run_the_same_hooks_when_each_response_is_lost_once_and_each_request_is_duplicated() {
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
        assert_eq!(actions, 1, "an action of {unit} was requested once, and ran once");
    }
    // each hook is one record, and the first response to each record was lost
    let commits = proxy.seen("commit");
    let hooks = ran(&scene, "db/0").len() + ran(&scene, "web/0").len();
    assert!(commits.lost >= hooks, "{commits:?}, {hooks} hooks");
    // each was sent again, except the last one of each unit, whose effect may be visible before its response
    assert!(commits.duplicated + 2 >= 2 * commits.lost, "{commits:?}");
    for kind in ["attach", "unit-token", "claim", "remove-unit"] {
        assert!(proxy.seen(kind).lost >= 1, "{kind}: {:?}", proxy.seen(kind));
    }
}
