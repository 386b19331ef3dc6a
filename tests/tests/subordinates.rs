//! Tests principals and subordinates with the real programs (spec/uniter.md H.8, H.15).

use api::text::refusal::message;
use serde_json::Value;
use state::terms::names::UnitName;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::refusal::{EntityKind, RefusalReason};
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

/// Deploys `db/0` and its subordinate `sub/0`, related by a declared endpoint of each.
fn pair() -> Scene {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    let output = host.pintle(&["deploy", text(&sample("subordinate")), "sub"]);
    assert!(output.code == 0 && !output.stderr.contains("not supported"), "{output:?}");
    host.until_status("db/0", "active", "ready");
    host.ok(&["integrate", "db", "sub"]);
    host.until_status("db/0", "active", "sub likes grey");
    host
}

fn below(host: &Host, principal: &str) -> Option<Value> {
    let sub = host.unit(principal)?["subordinates"]["sub/0"].clone();
    (!sub.is_null()).then_some(sub)
}

fn is_removed(host: &Host, application: &str) -> Option<()> {
    let there = host.status()["applications"][application].clone();
    there.is_null().then_some(())
}

#[test]
fn a_subordinate_is_created_and_removed_with_its_relation() {
    let host = pair();
    let folder = host.unit_folder("sub/0").expect("it is deployed on the machine of its principal");
    assert_eq!(folder.parent(), host.unit_folder("db/0").expect("it is deployed").parent());
    host.until("both have reported everything", |host| {
        let sub = below(host, "db/0")?;
        let is_reported = sub["workload-status"]["message"].as_str()?.starts_with("beside db/0 at 127.");
        (is_reported && sub["juju-status"]["current"] == "idle").then_some(())
    });
    // 15: the first hooks, each with the principal's name
    let ran = hooks(&host, "sub/0");
    let expected = ["install", "db-relation-created", "leader-elected", "config-changed", "start"];
    assert_eq!(ran[..5], expected);
    assert_eq!(ran[5..7], ["db-relation-joined", "db-relation-changed"]);
    host.until_logged("start beside db/0");
    host.until_logged("db-relation-changed: db/0 saw color grey");
    let status = host.status();
    assert_eq!(status["applications"]["sub"]["subordinate-to"], serde_json::json!(["db"]));
    let table = host.ok(&["status", "--relations"]);
    assert!(table.lines().any(|line| line.starts_with("  sub/0*")), "{table}");
    assert!(table.contains("subordinate"), "{table}");
    // 123
    let error = host.refused(&["remove-unit", "sub/0", "--no-prompt"]);
    let refusal = UnitRefusal::Subordinate { unit: UnitName::new("sub", 0) };
    assert!(error.contains(&message(&refusal.into())), "{error}");
    // 119: another principal gets its own subordinate
    host.ok(&["add-unit", "db", "--to", "0"]);
    host.until("the second principal has its own subordinate", |host| {
        let second = host.unit("db/1")?["subordinates"]["sub/1"].clone();
        second["workload-status"]["message"].as_str()?.starts_with("beside db/1 at").then_some(())
    });
    let shown = host.ok(&["show-unit", "db/0", "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    let related = &shown["db/0"]["relation-info"][0]["related-units"];
    let names: Vec<&String> = related.as_object().expect("it has members").keys().collect();
    assert_eq!(names, ["sub/0"]);
    // 121
    let before = hooks(&host, "db/0").len();
    host.ok(&["remove-relation", "db", "sub"]);
    host.until("the subordinates are gone", |host| {
        let units = host.status()["applications"]["db"]["units"].clone();
        let left = ["db/0", "db/1"].iter().any(|unit| units[unit].get("subordinates").is_some());
        (!left && !folder.exists()).then_some(())
    });
    let table = host.ok(&["status"]);
    assert!(!table.contains("sub/"), "{table}");
    host.until("the principal ran its hooks", |host| {
        let after = hooks(host, "db/0")[before..].to_vec();
        (after == ["db-relation-departed", "db-relation-broken"]).then_some(())
    });
    host.until_status("db/0", "active", "ready");
}

#[test]
fn removing_a_principal_removes_its_subordinate_first() {
    let host = pair();
    // also related by juju-info: there is still one subordinate, which stays while one of the relations exists (122)
    host.ok(&["integrate", "db:juju-info", "sub:host"]);
    host.until_logged("host-relation-changed: db/0 is at 127.");
    host.ok(&["remove-relation", "db:db", "sub:db"]);
    host.until("the first relation is gone", |host| {
        let removed = !host.ok(&["status", "--relations"]).contains("db:db");
        removed.then_some(())
    });
    assert!(below(&host, "db/0").is_some());
    let folder = host.unit_folder("sub/0").expect("it is deployed");
    // 120
    host.ok(&["remove-unit", "db/0", "--no-prompt"]);
    host.until("both are gone", |host| (host.unit("db/0").is_none() && !folder.exists()).then_some(()));
    host.ok(&["remove-application", "sub", "--no-prompt"]);
    host.until("nothing holds the application", |host| is_removed(host, "sub"));
}

#[test]
fn a_relation_is_suspended_and_resumed() {
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    let shown = host.ok(&["show-unit", "web/0", "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    let id = shown["web/0"]["relation-info"][0]["relation-id"].to_string();
    // the reply to its settings has arrived: no hook is pending
    host.until_logged(r#"db-relation-changed: db/0 has set {"color-seen":"green""#);
    let before = hooks(&host, "web/0").len();
    let why = "db moves";
    host.ok(&["suspend-relation", &id, "--message", why]);
    host.until_status("web/0", "blocked", "needs a database");
    host.until("it is shown", |host| {
        host.ok(&["status", "--relations"]).contains(&format!("suspended - {why}")).then_some(())
    });
    let after = hooks(&host, "web/0")[before..].to_vec();
    assert_eq!(after, ["db-relation-departed", "db-relation-broken"]);
    host.ok(&["resume-relation", &id]);
    host.until_status("db/0", "active", "web likes green");
    let again = hooks(&host, "web/0")[before + 2..].to_vec();
    assert_eq!(again[..3], ["db-relation-created", "db-relation-joined", "db-relation-changed"]);
    let error = host.refused(&["suspend-relation", "999"]);
    let not_found = RefusalReason::NotFound { kind: EntityKind::Relation, name: "999".to_owned() };
    assert!(error.contains(&message(&not_found)), "{error}");
}
