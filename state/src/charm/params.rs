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
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The deepest nesting of a schema that is evaluated; the parser of actions.yaml has the same limit.
const DEPTH_MAX: u32 = 64;

/// A parameter that does not satisfy the schema of its action. The English is in `api::text::refusal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub struct ParameterProblem {
    /// Where the value is, from `(root)`: `(root).target.port`.
    pub path: String,
    /// The rule that it violates.
    pub rule: ParameterRule,
    /// The value.
    pub given: Value,
}

/// A rule of a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ParameterRule {
    /// The value is nested less deeply than `DEPTH_MAX`.
    Depth,
    /// The value is of this type, or of one of these.
    Type(Value),
    /// The value is one of these.
    Enum(Vec<Value>),
    /// A number is at least this; with `exclusive`, greater.
    Minimum {
        /// The bound.
        bound: Value,
        /// Whether the bound itself is refused.
        exclusive: bool,
    },
    /// A number is at most this; with `exclusive`, less.
    Maximum {
        /// The bound.
        bound: Value,
        /// Whether the bound itself is refused.
        exclusive: bool,
    },
    /// A text has at least so many letters, or a list so many items.
    LengthMin {
        /// The bound.
        bound: Value,
        /// Whether the value is a list.
        items: bool,
    },
    /// A text has at most so many letters, or a list so many items.
    LengthMax {
        /// The bound.
        bound: Value,
        /// Whether the value is a list.
        items: bool,
    },
    /// The value satisfies at least one of several schemas (`anyOf`).
    AnyOf,
    /// The value satisfies exactly one of several schemas (`oneOf`).
    OneOf,
    /// The object has this property.
    Required {
        /// The name of the property.
        property: String,
    },
    /// The object has no property that the schema does not name, as this one.
    NoAdditional {
        /// The name of the property.
        property: String,
    },
}

/// The parameters that the action receives: `given` with the defaults of the schema inserted.
///
/// # Errors
/// Every parameter that does not satisfy the schema.
pub fn validate(
    action: &Action,
    given: &Map<String, Value>,
) -> Result<Map<String, Value>, Vec<ParameterProblem>> {
    let mut value = Value::Object(given.clone());
    insert_defaults(&action.schema, &mut value, DEPTH_MAX);
    let mut wrong = Vec::new();
    check(&action.schema, &value, "(root)", &mut wrong, DEPTH_MAX);
    match (value, wrong.is_empty()) {
        (Value::Object(params), true) => Ok(params),
        _ => Err(wrong),
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

fn check(schema: &Value, value: &Value, path: &str, wrong: &mut Vec<ParameterProblem>, depth: u32) {
    let mut report = |rule| wrong.push(problem(path, rule, value));
    if depth == 0 {
        return report(ParameterRule::Depth);
    }
    if let Some(types) = schema.get("type").filter(|types| !has_type(types, value)) {
        return report(ParameterRule::Type(types.clone()));
    }
    if let Some(Value::Array(choices)) =
        schema.get("enum").filter(|choices| !is_allowed_value(choices, value))
    {
        report(ParameterRule::Enum(choices.clone()));
    }
    for rule in out_of_bounds(schema, value) {
        report(rule);
    }
    for (key, exactly_one) in [("anyOf", false), ("oneOf", true)] {
        let Some(Value::Array(choices)) = schema.get(key) else {
            continue;
        };
        let valid = choices.iter().filter(|choice| is_valid(choice, value, depth)).count();
        if valid == 0 || (exactly_one && valid > 1) {
            report(if exactly_one { ParameterRule::OneOf } else { ParameterRule::AnyOf });
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

fn problem(path: &str, rule: ParameterRule, given: &Value) -> ParameterProblem {
    ParameterProblem { path: path.to_owned(), rule, given: given.clone() }
}

fn check_object(
    schema: &Value,
    object: &Map<String, Value>,
    path: &str,
    wrong: &mut Vec<ParameterProblem>,
    depth: u32,
) {
    let given = Value::Object(object.clone());
    for name in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if !object.contains_key(name) {
            wrong.push(problem(path, ParameterRule::Required { property: name.to_owned() }, &given));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in object {
        match (properties.and_then(|all| all.get(name)), schema.get("additionalProperties")) {
            (Some(property), _) => check(property, value, &format!("{path}.{name}"), wrong, depth - 1),
            (None, Some(Value::Bool(false))) => {
                wrong.push(problem(path, ParameterRule::NoAdditional { property: name.clone() }, &given));
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
fn out_of_bounds(schema: &Value, value: &Value) -> Vec<ParameterRule> {
    let mut wrong = Vec::new();
    let bound = |key: &str| schema.get(key).and_then(|bound| Some((bound.as_f64()?, bound.clone())));
    // Draft 4 writes a bound and a boolean beside it, later drafts write the bound itself.
    let strict = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(number) = value.as_f64() {
        let exclusive = strict("exclusiveMinimum");
        match (bound("minimum"), bound("exclusiveMinimum")) {
            (Some((least, bound)), _) if number < least || exclusive && number <= least => {
                wrong.push(ParameterRule::Minimum { bound, exclusive });
            }
            (_, Some((least, bound))) if number <= least => {
                wrong.push(ParameterRule::Minimum { bound, exclusive: true });
            }
            _ => {}
        }
        let exclusive = strict("exclusiveMaximum");
        match (bound("maximum"), bound("exclusiveMaximum")) {
            (Some((most, bound)), _) if number > most || exclusive && number >= most => {
                wrong.push(ParameterRule::Maximum { bound, exclusive });
            }
            (_, Some((most, bound))) if number >= most => {
                wrong.push(ParameterRule::Maximum { bound, exclusive: true });
            }
            _ => {}
        }
    }
    let length = match value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength", false)),
        Value::Array(all) => Some((all.len(), "minItems", "maxItems", true)),
        _ => None,
    };
    if let Some((length, least, most, items)) = length {
        if let Some((_, bound)) = bound(least).filter(|(least, _)| (length as f64) < *least) {
            wrong.push(ParameterRule::LengthMin { bound, items });
        }
        if let Some((_, bound)) = bound(most).filter(|(most, _)| (length as f64) > *most) {
            wrong.push(ParameterRule::LengthMax { bound, items });
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(schema: Value, given: Value) -> Result<Value, Vec<ParameterProblem>> {
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
        let integer = || ParameterRule::Type("integer".into());
        let wrong = problem("(root).amount", integer(), &"x".into());
        assert_eq!(run(schema(), json!({"mode": "fast", "amount": "x"})), Err(vec![wrong]));
        let wrong = problem("(root).target.port", integer(), &"http".into());
        assert_eq!(run(schema(), json!({"mode": "fast", "target": {"port": "http"}})), Err(vec![wrong]));
    }

    #[test]
    fn all_errors_are_reported_together() {
        let given = json!({"amount": 0, "target": 1});
        let missing = ParameterRule::Required { property: "mode".to_owned() };
        let minimum = ParameterRule::Minimum { bound: 1.into(), exclusive: false };
        let expected = vec![
            problem("(root)", missing, &given),
            problem("(root).amount", minimum, &0.into()),
            problem("(root).target", ParameterRule::Type("object".into()), &1.into()),
        ];
        assert_eq!(run(schema(), given), Err(expected));
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
        let rule = ParameterRule::NoAdditional { property: "extra".to_owned() };
        let wrong = problem("(root)", rule, &json!({"extra": 1}));
        assert_eq!(run(closed, json!({"extra": 1})), Err(vec![wrong]));
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
