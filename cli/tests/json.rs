//! Documents contain the keys that clients require (spec/clients.md 2.4); compared with the samples of the spec.

mod samples;

use cli::render::{application_config, status_json, task, unit};
use cli::times::Zone;
use samples::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn status() -> Value {
    json!(status_json::document(&sample(), &Zone::new(true), &BTreeMap::new()))
}

#[test]
fn status_has_every_required_key() {
    let status = status();
    for key in ["model", "machines", "applications"] {
        assert!(status[key].is_object(), "{key}");
    }
    for key in ["name", "type", "controller", "cloud", "version"] {
        assert!(status["model"][key].is_string(), "{key}");
    }
    assert_eq!(status["model"]["type"], "iaas");
    let app = &status["applications"]["ledger"];
    assert_eq!((&app["charm-origin"], &app["charm-name"]), (&json!("local"), &json!("ledger")));
    assert_eq!((&app["charm-rev"], &app["exposed"]), (&json!(0), &json!(false)));
    assert_eq!(app["base"], json!({ "name": "ubuntu", "channel": "24.04" }));
    let related = json!([{ "related-application": "auditor", "interface": "audit", "scope": "container" }]);
    assert_eq!(app["relations"], json!({ "audit": related }));
    let expected = json!({ "current": "active", "message": "epoch 1", "since": "1970-01-01 10:00:09Z" });
    assert_eq!(app["application-status"], expected);
}

#[test]
fn units_contain_their_subordinates() {
    let status = status();
    let unit = &status["applications"]["ledger"]["units"]["ledger/0"];
    assert_eq!((&unit["leader"], &unit["machine"]), (&json!(true), &json!("0")));
    assert_eq!((&unit["open-ports"], &unit["public-address"]), (&json!(["8080/tcp"]), &json!("127.0.0.1")));
    assert_eq!(unit["juju-status"]["version"], "3.6.14");
    assert_eq!(unit["subordinates"]["auditor/0"]["juju-status"]["current"], "executing");
    let auditor = &status["applications"]["auditor"];
    assert_eq!((auditor.get("units"), &auditor["subordinate-to"]), (None, &json!(["ledger"])));
}

#[test]
fn keys_without_a_value_are_omitted_and_never_null() {
    fn no_null(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(list) => list.iter().all(no_null),
            Value::Object(map) => map.values().all(no_null),
            _ => true,
        }
    }
    let mut bare = sample();
    let ledger = bare.applications.get_mut("ledger").expect("of the sample");
    ledger.base = Default::default();
    ledger.status.since_ms = None;
    ledger.relations.clear();
    let document = json!(status_json::document(&bare, &Zone::new(true), &BTreeMap::new()));
    assert!(no_null(&document) && no_null(&status()), "{document}");
    let ledger = document["applications"]["ledger"].as_object().expect("a map");
    assert!(
        !ledger.contains_key("base") && !ledger.contains_key("relations") && !ledger.contains_key("life")
    );
}

#[test]
fn the_document_of_a_unit_is_the_sample_of_the_spec() {
    let expected = json!({
        "workload-version": "2.1",
        "machine": "0",
        "opened-ports": ["8080/tcp"],
        "public-address": "127.0.0.1",
        "charm": "local:ledger-0",
        "leader": true,
        "life": "alive",
        "relation-info": [{
            "relation-id": 1,
            "endpoint": "ledger",
            "related-endpoint": "bank",
            "application-data": { "greeting": "hi" },
            "local-unit": { "in-scope": true, "data": { "address": "127.0.0.1" } },
            "related-units": { "teller/0": { "in-scope": true, "data": { "request": "[]" } } },
        }],
    });
    assert_eq!(unit::document(&sample_unit(), &unit::ShowUnitFilter::default()), expected);

    let filter = unit::ShowUnitFilter { application_only: true, ..Default::default() };
    let alone = &unit::document(&sample_unit(), &filter)["relation-info"][0];
    assert_eq!((alone.get("local-unit"), alone.get("related-units")), (None, None));
    let filter = unit::ShowUnitFilter { endpoint: Some("other".to_owned()), ..Default::default() };
    assert_eq!(unit::document(&sample_unit(), &filter).get("relation-info"), None);
}

#[test]
fn an_option_without_a_value_has_no_value_key() {
    let config = application_config::document(&sample_config());
    let settings = &config["settings"];
    assert_eq!((&settings["port"]["type"], &settings["port"]["value"]), (&json!("int"), &json!(8080)));
    assert_eq!(
        (&settings["port"]["source"], &settings["rate"]["source"]),
        (&json!("user"), &json!("default"))
    );
    assert_eq!((settings["unset"].get("value"), &settings["unset"]["source"]), (None, &json!("unset")));
}

#[test]
fn the_document_of_a_task_is_the_sample_of_the_spec() {
    let time = "1970-01-01 10:00:09 +0000 UTC";
    let expected = json!({
        "id": "7",
        "status": "completed",
        "unit": "ledger/0",
        "results": { "balance": "30", "nested": { "a": "1" }, "return-code": 0 },
        "log": [format!("{time} posting")],
        "timing": { "enqueued": time, "started": time, "completed": time },
    });
    assert_eq!(task::document(&sample_task()), expected);
}
