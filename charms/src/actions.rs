//! Reads actions.yaml: the actions that a user may run on a unit (spec/clients.md 4.5).
//!
//! Every problem is reported with its key. Called by `declaration`.

use crate::problem::{Checker, join};
use serde_json::{Map, Value};
use state::charm::{Action, Charm, DECLARED_NAME_BYTES_MAX};

/// Reads the parsed file into `charm` and reports problems to `checker`.
pub fn read(file: &Value, charm: &mut Charm, checker: &mut Checker) {
    for (name, value) in checker.map("", Some(file)) {
        if !is_action_name(&name) {
            let rule = "use lower-case letters, digits and inner hyphens";
            checker.add(&name, format!("invalid action name {name:?}: {rule}"));
        } else if name == "juju" || name.starts_with("juju-") {
            checker.add(&name, "action names that begin with juju are reserved");
        }
        if name.len() > DECLARED_NAME_BYTES_MAX {
            let text = format!("a name of {} bytes, at most {DECLARED_NAME_BYTES_MAX}", name.len());
            checker.add(&name, text);
        }
        let action = read_action(&name, &value, checker);
        charm.actions.insert(name, action);
    }
}

/// Whether `name` is an action name. It becomes the name of a file in `actions/`.
fn is_action_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.bytes().all(is_allowed) && !name.starts_with('-') && !name.ends_with('-')
}

fn read_action(name: &str, value: &Value, checker: &mut Checker) -> Action {
    let map = checker.map(name, Some(value));
    let mut schema = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    for (key, value) in &map {
        match key.as_str() {
            "parallel" | "execution-group" => {}
            "params" => {
                let properties = checker.map(&join(name, "params"), Some(value));
                schema.insert("properties".to_owned(), Value::Object(properties));
            }
            // Every other key is part of the JSON schema.
            _ => drop(schema.insert(key.clone(), value.clone())),
        }
    }
    let _ = checker.text(&join(name, "title"), map.get("title"));
    let schema = Value::Object(schema);
    check_schema(&schema, name, checker);
    Action {
        description: checker.text(&join(name, "description"), map.get("description")).unwrap_or_default(),
        parallel: checker.bool(&join(name, "parallel"), map.get("parallel")),
        execution_group: checker
            .text(&join(name, "execution-group"), map.get("execution-group"))
            .unwrap_or_default(),
        schema,
    }
}

/// Reports everything in `schema`, at any depth, that is not a valid schema of parameters. `place` is its key.
fn check_schema(schema: &Value, place: &str, checker: &mut Checker) {
    const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];
    let Value::Object(map) = schema else {
        return checker.add(place, "expected a map with the schema of the parameter");
    };
    for key in ["$ref", "$schema"] {
        if map.contains_key(key) {
            checker.add(place, format!("{key} is not supported"));
        }
    }
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match map.get("type") {
        None => {}
        Some(Value::Array(types)) if types.iter().all(is_type) => {}
        Some(value) if is_type(value) => {}
        Some(other) => {
            let text = format!("invalid parameter type {other}: expected one of {}", TYPES.join(", "));
            checker.add(&join(place, "type"), text);
        }
    }
    match map.get("required") {
        None => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(_) => checker.add(&join(place, "required"), "expected a list of parameter names"),
    }
    match map.get("properties") {
        None => {}
        Some(Value::Object(properties)) => {
            for (name, property) in properties {
                check_schema(property, &join(place, name), checker);
            }
        }
        Some(_) => checker.add(&join(place, "properties"), "expected a map"),
    }
    if let Some(items @ Value::Object(_)) = map.get("items") {
        check_schema(items, &join(place, "items"), checker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_text(text: &str) -> (Charm, Vec<String>) {
        let (mut charm, mut checker) = (Charm::default(), Checker::new("actions.yaml"));
        read(&crate::yaml::from_str(text).expect("yaml"), &mut charm, &mut checker);
        (charm, checker.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn params_become_the_properties_of_a_schema() {
        let (charm, problems) = read_text(
            "backup:\n  description: Save it.\n  params:\n    to: {type: string, default: /srv}\n  required: [to]\n  \
             additionalProperties: false\n  parallel: true\nget-units:\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(charm.actions["backup"].description, "Save it.");
        assert!(charm.actions["backup"].parallel);
        let expected = json!({
            "type": "object", "description": "Save it.", "required": ["to"], "additionalProperties": false,
            "properties": {"to": {"type": "string", "default": "/srv"}},
        });
        assert_eq!(charm.actions["backup"].schema, expected);
        assert_eq!(charm.actions["get-units"].schema, json!({"type": "object"}));
    }

    #[test]
    fn every_invalid_name_and_schema_is_reported() {
        let (_, problems) = read_text(
            "Backup: {}\n../sh: {}\njuju-run: {}\na:\n  params:\n    x: {type: int}\n    y: {$ref: '#/z'}\n    z: 1\n\
             b: {required: to}\n",
        );
        let expected = [
            "actions.yaml: ../sh: invalid action name \"../sh\": use lower-case letters, digits and inner hyphens",
            "actions.yaml: Backup: invalid action name \"Backup\": use lower-case letters, digits and inner hyphens",
            "actions.yaml: a.x.type: invalid parameter type \"int\": expected one of string, integer, number, boolean, array, object, null",
            "actions.yaml: a.y: $ref is not supported",
            "actions.yaml: a.z: expected a map with the schema of the parameter",
            "actions.yaml: b.required: expected a list of parameter names",
            "actions.yaml: juju-run: action names that begin with juju are reserved",
        ];
        assert_eq!(problems, expected);
        let (_, problems) = read_text(&format!("{}: {{}}\n", "a".repeat(DECLARED_NAME_BYTES_MAX + 1)));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
