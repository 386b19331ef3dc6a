//! A user's request with an unknown field is refused, wherever the field is: a misspelt field would have no effect.
//! Messages between agents and the controller ignore unknown fields, for agents of the next version.

use api::all_requests;
use api::request::{Caller, Entry};
use schemars::SchemaGenerator;
use serde_json::Value;

/// Requests of users that only programs send: the provisioner is upgraded separately.
const TOLERANT: [&str; 5] = [
    "ReportInstance",
    "GetMachineExistence",
    "SetMachineToken",
    "ReportMachineAgentExits",
    "RemoveDeadMachine",
];
/// Types that agents send, too.
const SHARED: [&str; 3] = ["Position", "Base", "StorageDirective"];

/// The objects of a schema that accept unknown fields.
fn tolerant(schema: &Value, path: &str, definitions: &Value, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.rsplit('/').next()) {
        if !SHARED.contains(&name) {
            tolerant(&definitions[name], &format!("{path} {name}"), definitions, found);
        }
        return;
    }
    let fields = schema["properties"].as_object();
    if fields.is_some() && schema["additionalProperties"] != false {
        found.push(path.to_owned());
    }
    for (name, field) in fields.into_iter().flatten() {
        tolerant(field, &format!("{path}.{name}"), definitions, found);
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        let branches = schema[word].as_array().into_iter().flatten();
        branches.for_each(|branch| tolerant(branch, path, definitions, found));
    }
    tolerant_items(&schema["items"], path, definitions, found);
}

fn tolerant_items(items: &Value, path: &str, definitions: &Value, found: &mut Vec<String>) {
    if items.is_object() {
        tolerant(items, &format!("{path}[]"), definitions, found);
    }
}

fn is_of_user(entry: &Entry) -> bool {
    matches!(entry.caller, Caller::Reader | Caller::Writer | Caller::Admin) && !TOLERANT.contains(&entry.name)
}

#[test]
fn every_request_of_a_user_refuses_unknown_fields() {
    let mut found = Vec::new();
    for entry in all_requests::all().iter().filter(|entry| is_of_user(entry)) {
        let mut generator = SchemaGenerator::default();
        let schema = (entry.input)(&mut generator).to_value();
        let definitions = serde_json::to_value(generator.definitions()).expect("plain data");
        tolerant(&schema, entry.name, &definitions, &mut found);
    }
    assert!(found.is_empty(), "these accept unknown fields: {found:#?}");
}

#[test]
fn the_error_names_the_unknown_field() {
    let misspelt = r#"{"application": "web", "unit": 3}"#;
    let error = serde_json::from_str::<api::AddUnits>(misspelt).expect_err("it is refused").to_string();
    assert!(error.contains("`unit`"), "{error}");
}

#[test]
fn messages_of_agents_may_have_fields_of_the_next_version() {
    let claim = r#"{"epoch": 1, "release": false, "of-the-next-version": 3}"#;
    serde_json::from_str::<api::Claim>(claim).expect("it is accepted");
}
