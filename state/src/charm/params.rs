//! Validates the parameters of an action.
//!
//! The controller checks them before it queues the action and inserts the defaults, so that the action always
//! receives complete parameters (spec/clients.md 4.5).
//!
//! The validator supports the subset of JSON schema that charms use: type, properties, required,
//! additionalProperties, items, enum, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength,
//! minItems, maxItems, anyOf, oneOf. `pattern` and `format` are not evaluated, because this crate has no regular
//! expression engine; the action still receives the value.

use super::Action;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The deepest nesting of a schema that is evaluated; the parser of actions.yaml has the same limit.
const DEPTH_MAX: u32 = 64;
/// The most problems that are reported.
const PROBLEMS_MAX: usize = 20;
/// The most values of a schema that are compared with values of the parameters: some milliseconds. Parameters of 64 KiB
/// have at most 32,768 values.
const COMPARISONS_MAX: usize = 200_000;
/// The longest value in a problem, as characters of its JSON: 20 problems of at most 3 + 20 values with 200 characters.
const EXCERPT_CHARS: usize = 200;
/// The most values of an `enum` that a problem names.
const CHOICES_SHOWN: usize = 20;

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
    /// The schema and the parameters can be compared in a bounded time.
    Comparisons,
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
    /// A text has at least this many characters, or a list this many items.
    LengthMin {
        /// The bound.
        bound: Value,
        /// Whether the value is a list.
        items: bool,
    },
    /// A text has at most this many characters, or a list this many items.
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
    /// The schema declares every property of the object; it does not declare this one.
    NoAdditional {
        /// The name of the property.
        property: String,
    },
}

/// The parameters that the action receives: `given` with the defaults of the schema inserted.
pub fn with_defaults(action: &Action, given: &Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(given.clone());
    insert_defaults(&action.schema, &mut value, DEPTH_MAX);
    match value {
        Value::Object(params) => params,
        _ => unreachable!("defaults are inserted into an object"),
    }
}

/// Checks parameters, whose size is bounded.
///
/// # Errors
/// The parameters that do not satisfy the schema, at most 20.
pub fn validate(action: &Action, params: &Map<String, Value>) -> Result<(), Vec<ParameterProblem>> {
    let mut checked = Checked { problems: Vec::new(), comparisons_left: COMPARISONS_MAX };
    checked.value(&action.schema, &Value::Object(params.clone()), "(root)", DEPTH_MAX);
    match checked.problems.is_empty() {
        true => Ok(()),
        false => Err(checked.problems),
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

/// A check of parameters. The charm chooses the schema and its defaults: the check has a bound in time and memory.
struct Checked {
    problems: Vec<ParameterProblem>,
    comparisons_left: usize,
}

impl Checked {
    fn report(&mut self, path: &str, rule: ParameterRule, given: &Value) {
        if self.problems.len() < PROBLEMS_MAX {
            let (path, given) = (shortened_text(path), shortened(given));
            self.problems.push(ParameterProblem { path, rule, given });
        }
    }

    /// Counts comparisons. Returns false, after a report, if there were too many.
    fn may_compare(&mut self, count: usize, path: &str) -> bool {
        let was_allowed = self.comparisons_left > 0;
        self.comparisons_left = self.comparisons_left.saturating_sub(count);
        if was_allowed && self.comparisons_left == 0 {
            self.report(path, ParameterRule::Comparisons, &Value::Null);
        }
        self.comparisons_left > 0
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str, depth: u32) {
        if self.problems.len() >= PROBLEMS_MAX || !self.may_compare(1, path) {
            return;
        }
        if depth == 0 {
            return self.report(path, ParameterRule::Depth, value);
        }
        if let Some(types) = schema.get("type").filter(|types| !has_type(types, value)) {
            return self.report(path, ParameterRule::Type(shortened(types)), value);
        }
        self.bounds(schema, value, path, depth);
        match value {
            Value::Object(object) => self.object(schema, object, path, depth),
            Value::Array(items) => {
                let Some(each) = schema.get("items").filter(|each| each.is_object()) else { return };
                for (index, item) in items.iter().enumerate() {
                    self.value(each, item, &format!("{path}.{index}"), depth - 1);
                }
            }
            _ => {}
        }
    }

    /// Checks everything except the type, the properties and the items.
    fn bounds(&mut self, schema: &Value, value: &Value, path: &str, depth: u32) {
        if let Some(Value::Array(choices)) = schema.get("enum")
            && self.may_compare(choices.len(), path)
            && !choices.contains(value)
        {
            self.report(path, ParameterRule::Enum(shortened_list(choices)), value);
        }
        for rule in out_of_bounds(schema, value) {
            self.report(path, rule, value);
        }
        for (key, exactly_one) in [("anyOf", false), ("oneOf", true)] {
            let Some(Value::Array(choices)) = schema.get(key) else { continue };
            let valid = choices.iter().filter(|choice| self.is_valid(choice, value, path, depth)).count();
            if valid == 0 || (exactly_one && valid > 1) {
                let rule = if exactly_one { ParameterRule::OneOf } else { ParameterRule::AnyOf };
                self.report(path, rule, value);
            }
        }
    }

    /// Whether `value` satisfies `schema`.
    fn is_valid(&mut self, schema: &Value, value: &Value, path: &str, depth: u32) -> bool {
        let mut checked = Checked { problems: Vec::new(), comparisons_left: self.comparisons_left };
        checked.value(schema, value, "", depth - 1);
        self.may_compare(self.comparisons_left - checked.comparisons_left, path);
        checked.problems.is_empty()
    }

    fn object(&mut self, schema: &Value, object: &Map<String, Value>, path: &str, depth: u32) {
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !self.may_compare(required.len(), path) {
            return;
        }
        let absent = required.iter().filter_map(Value::as_str).filter(|name| !object.contains_key(*name));
        for name in absent.take(PROBLEMS_MAX) {
            let rule = ParameterRule::Required { property: shortened_text(name) };
            self.report(path, rule, &Value::Object(object.clone()));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, value) in object {
            if self.problems.len() >= PROBLEMS_MAX {
                return;
            }
            let below = || format!("{path}.{name}");
            match (properties.and_then(|all| all.get(name)), schema.get("additionalProperties")) {
                (Some(property), _) => self.value(property, value, &below(), depth - 1),
                (None, Some(Value::Bool(false))) => {
                    let rule = ParameterRule::NoAdditional { property: shortened_text(name) };
                    self.report(path, rule, &Value::Object(object.clone()));
                }
                (None, Some(other @ Value::Object(_))) => self.value(other, value, &below(), depth - 1),
                (None, _) => {}
            }
        }
    }
}

/// A value for a message: large ones become the beginning of their JSON.
fn shortened(value: &Value) -> Value {
    let text = value.to_string();
    match text.chars().count() > EXCERPT_CHARS {
        true => Value::String(shortened_text(&text)),
        false => value.clone(),
    }
}

fn shortened_text(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first values of a list.
fn shortened_list(values: &[Value]) -> Vec<Value> {
    let more = (values.len() > CHOICES_SHOWN).then(|| Value::String("…".to_owned()));
    values.iter().take(CHOICES_SHOWN).map(shortened).chain(more).collect()
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
        let action = Action { schema, ..Action::default() };
        let params = with_defaults(&action, &given);
        validate(&action, &params).map(|()| Value::Object(params))
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

    fn problem(path: &str, rule: ParameterRule, given: &Value) -> ParameterProblem {
        ParameterProblem { path: path.to_owned(), rule, given: given.clone() }
    }

    /// A charm chooses its schema: each of 20,000 items is compared with 20,000 choices, none of which it is.
    #[test]
    fn the_work_and_the_problems_of_a_check_are_bounded() {
        let (items, choices): (Vec<u32>, Vec<u32>) = (vec![0; 20_000], (1..=20_000).collect());
        let schema = json!({"properties": {"x": {"items": {"enum": choices}, "default": items}}});
        let problems = run(schema, json!({})).expect_err("no item is allowed");
        assert!(
            problems.len() <= PROBLEMS_MAX && problems.iter().any(|p| p.rule == ParameterRule::Comparisons)
        );
        let bytes = serde_json::to_vec(&problems).expect("plain data").len();
        assert!(bytes < 120 << 10, "{bytes}");
        let required: Vec<String> = (0..1_000).map(|n| format!("{n}{}", "x".repeat(1_000))).collect();
        let given = json!({"large": "x".repeat(10_000)});
        let problems = run(json!({"required": required}), given).expect_err("they are missing");
        let bytes = serde_json::to_vec(&problems).expect("plain data").len();
        assert!(problems.len() == PROBLEMS_MAX && bytes < 120 << 10, "{bytes}");
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
