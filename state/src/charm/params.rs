//! Validates the parameters of an action.
//!
//! The controller checks them before it queues the action and inserts the defaults, so that the action always
//! receives complete parameters (spec/clients.md 4.5).
//!
//! Supported is the subset of JSON schema that charms use: type, properties, required, additionalProperties,
//! items, enum, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems,
//! anyOf, oneOf. `pattern` and `format` are not evaluated, because this crate has no regular expression engine;
//! the action still receives the value.

use super::Action;
use serde_json::{Map, Value};

/// The deepest nesting of a schema that is evaluated; the parser of actions.yaml has the same limit.
const DEPTH_MAX: u32 = 64;

/// The parameters that the action receives: `given` with the defaults of the schema inserted. The error names
/// every invalid parameter and is for the user.
pub fn validate(action: &Action, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut value = Value::Object(given.clone());
    insert_defaults(&action.schema, &mut value, DEPTH_MAX);
    let mut wrong = Vec::new();
    check(&action.schema, &value, "(root)", &mut wrong, DEPTH_MAX);
    match (value, wrong.is_empty()) {
        (Value::Object(params), true) => Ok(params),
        _ => Err(format!("validation failed: {}", wrong.join("; "))),
    }
}

fn insert_defaults(schema: &Value, value: &mut Value, depth: u32) {
    let (Some(Value::Object(properties)), Value::Object(object)) = (schema.get("properties"), value) else {
        return;
    };
    if depth == 0 {
        return;
    }
    for (name, property) in properties {
        if let (None, Some(default)) = (object.get(name), property.get("default")) {
            object.insert(name.clone(), default.clone());
        }
        if let Some(inner) = object.get_mut(name) {
            insert_defaults(property, inner, depth - 1);
        }
    }
}

fn check(schema: &Value, value: &Value, path: &str, wrong: &mut Vec<String>, depth: u32) {
    let mut report = |text: String| wrong.push(format!("{path} : {text}, given {value}"));
    if depth == 0 {
        return report("is nested too deeply".to_owned());
    }
    if let Some(types) = schema.get("type").filter(|types| !has_type(types, value)) {
        let one = types.as_str().map(str::to_owned);
        let word = one.unwrap_or_else(|| types.to_string());
        return report(format!("must be of type {word}"));
    }
    if let Some(Value::Array(choices)) =
        schema.get("enum").filter(|choices| !is_allowed_value(choices, value))
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        report(format!("must match one of the enum values [{}]", choices.join(", ")));
    }
    for text in out_of_bounds(schema, value) {
        report(text);
    }
    for (key, exactly_one) in [("anyOf", false), ("oneOf", true)] {
        let Some(Value::Array(choices)) = schema.get(key) else {
            continue;
        };
        let valid = choices.iter().filter(|choice| is_valid(choice, value, depth)).count();
        if valid == 0 || (exactly_one && valid > 1) {
            let how_many = if exactly_one { "one and only one" } else { "at least one" };
            report(format!("must validate {how_many} schema ({key})"));
        }
    }
    match value {
        Value::Object(object) => check_object(schema, object, path, wrong, depth),
        Value::Array(items) => {
            let Some(each) = schema.get("items").filter(|each| each.is_object()) else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                check(each, item, &format!("{path}.{index}"), wrong, depth - 1);
            }
        }
        _ => {}
    }
}

fn check_object(
    schema: &Value,
    object: &Map<String, Value>,
    path: &str,
    wrong: &mut Vec<String>,
    depth: u32,
) {
    let given = Value::Object(object.clone());
    for name in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if !object.contains_key(name) {
            wrong.push(format!("{path} : {name:?} property is missing and required, given {given}"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in object {
        match (properties.and_then(|all| all.get(name)), schema.get("additionalProperties")) {
            (Some(property), _) => check(property, value, &format!("{path}.{name}"), wrong, depth - 1),
            (None, Some(Value::Bool(false))) => {
                wrong.push(format!("{path} : additional property {name:?} is not allowed, given {given}"));
            }
            (None, Some(Value::Object(other))) => {
                let other = Value::Object(other.clone());
                check(&other, value, &format!("{path}.{name}"), wrong, depth - 1);
            }
            (None, _) => {}
        }
    }
}

/// Whether `value` satisfies `schema`.
fn is_valid(schema: &Value, value: &Value, depth: u32) -> bool {
    let mut wrong = Vec::new();
    check(schema, value, "", &mut wrong, depth - 1);
    wrong.is_empty()
}

/// Whether `value` is of the type, or of one of the types.
fn has_type(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(several) => several.iter().any(|each| has_type(each, value)),
        Value::String(word) => match word.as_str() {
            "string" => value.is_string(),
            // 1.0 is an integer in JSON schema.
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        },
        _ => true,
    }
}

/// Whether `value` is in the `enum` of a schema.
fn is_allowed_value(choices: &Value, value: &Value) -> bool {
    choices.as_array().is_none_or(|choices| choices.contains(value))
}

/// The numeric and length bounds of `schema` that `value` violates.
fn out_of_bounds(schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    // Draft 4 writes a bound and a boolean beside it, later drafts write the bound itself.
    let strict = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(number) = value.as_f64() {
        let low = (bound("minimum"), strict("exclusiveMinimum"), bound("exclusiveMinimum"));
        let high = (bound("maximum"), strict("exclusiveMaximum"), bound("exclusiveMaximum"));
        match low {
            (Some(least), false, _) if number < least => {
                wrong.push(format!("must be greater than or equal to {least}"))
            }
            (Some(least), true, _) | (_, _, Some(least)) if number <= least => {
                wrong.push(format!("must be greater than {least}"));
            }
            _ => {}
        }
        match high {
            (Some(most), false, _) if number > most => {
                wrong.push(format!("must be less than or equal to {most}"))
            }
            (Some(most), true, _) | (_, _, Some(most)) if number >= most => {
                wrong.push(format!("must be less than {most}"));
            }
            _ => {}
        }
    }
    let length = match value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength", "length")),
        Value::Array(items) => Some((items.len(), "minItems", "maxItems", "number of items")),
        _ => None,
    };
    if let Some((length, least, most, what)) = length {
        if let Some(least) = bound(least).filter(|least| (length as f64) < *least) {
            wrong.push(format!("{what} must be greater than or equal to {least}"));
        }
        if let Some(most) = bound(most).filter(|most| (length as f64) > *most) {
            wrong.push(format!("{what} must be less than or equal to {most}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(schema: Value, given: Value) -> Result<Value, String> {
        let given = given.as_object().expect("parameters are a map").clone();
        validate(&Action { schema, ..Action::default() }, &given).map(Value::Object)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "amount": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                "mode": {"type": "string", "enum": ["fast", "safe"]},
                "target": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
            },
            "required": ["mode"],
        })
    }

    #[test]
    fn defaults_are_inserted_at_every_level() {
        let expected = json!({"amount": 2, "mode": "fast", "target": {"port": 80}});
        assert_eq!(run(schema(), json!({"mode": "fast", "target": {}})), Ok(expected));
        assert_eq!(
            run(schema(), json!({"mode": "safe", "amount": 5})),
            Ok(json!({"mode": "safe", "amount": 5}))
        );
    }

    #[test]
    fn errors_name_the_path_and_the_value() {
        let message = r#"validation failed: (root).amount : must be of type integer, given "x""#;
        assert_eq!(run(schema(), json!({"mode": "fast", "amount": "x"})), Err(message.to_owned()));
        let message = r#"validation failed: (root).target.port : must be of type integer, given "http""#;
        assert_eq!(
            run(schema(), json!({"mode": "fast", "target": {"port": "http"}})),
            Err(message.to_owned())
        );
    }

    #[test]
    fn all_errors_are_reported_together() {
        let message = run(schema(), json!({"amount": 0, "target": 1})).expect_err("three mistakes");
        for part in [
            r#"(root) : "mode" property is missing and required"#,
            "(root).amount : must be greater than or equal to 1, given 0",
            "(root).target : must be of type object, given 1",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }

    #[test]
    fn bounds_are_inclusive_unless_exclusive() {
        let between = |schema: Value, value: Value| {
            run(json!({"properties": {"x": schema}}), json!({"x": value})).is_ok()
        };
        assert!(between(json!({"minimum": 1, "maximum": 5}), json!(1)));
        assert!(between(json!({"minimum": 1, "maximum": 5}), json!(5)));
        assert!(!between(json!({"minimum": 1, "maximum": 5}), json!(6)));
        assert!(!between(json!({"minimum": 1, "exclusiveMinimum": true}), json!(1)));
        assert!(!between(json!({"exclusiveMaximum": 5}), json!(5)));
        assert!(between(json!({"minLength": 2}), json!("äö")));
        assert!(!between(json!({"minLength": 3}), json!("äö")));
        assert!(!between(json!({"maxItems": 1, "items": {"type": "string"}}), json!(["a", "b"])));
        assert!(!between(json!({"items": {"type": "string"}}), json!([1])));
    }

    #[test]
    fn unknown_parameters_are_accepted_unless_the_charm_forbids_them() {
        assert!(run(json!({"properties": {}}), json!({"extra": 1})).is_ok());
        let closed = json!({"properties": {}, "additionalProperties": false});
        let message =
            r#"validation failed: (root) : additional property "extra" is not allowed, given {"extra":1}"#;
        assert_eq!(run(closed, json!({"extra": 1})), Err(message.to_owned()));
        let typed = json!({"additionalProperties": {"type": "string"}});
        assert!(run(typed, json!({"extra": 1})).is_err());
    }

    #[test]
    fn one_of_requires_exactly_one_valid_schema_and_any_of_at_least_one() {
        let either = json!([{"type": "string"}, {"type": "integer"}]);
        let one_of = |value: Value| run(json!({"properties": {"x": {"oneOf": either}}}), json!({"x": value}));
        assert!(one_of(json!("a")).is_ok());
        assert!(one_of(json!(true)).is_err());
        let both = json!([{"type": "number"}, {"type": "integer"}]);
        assert!(run(json!({"properties": {"x": {"oneOf": both}}}), json!({"x": 1})).is_err());
        assert!(run(json!({"properties": {"x": {"anyOf": both}}}), json!({"x": 1})).is_ok());
    }
}
