//! What a tool answers with, before it is written in a format.

use std::collections::BTreeMap;

/// A value as Go's encoders tell them apart (spec/hook-tools.md 1.5).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Nil,
    Bool(bool),
    Integer(i64),
    /// A number that was once JSON: `3.0` prints as `3`.
    Float(f64),
    Text(String),
    /// A list of names: smart joins it by newlines.
    Names(Vec<String>),
    /// A list of names that was never made: as an empty one, but `null` in JSON.
    NoNames,
    List(Vec<Value>),
    /// Keys are sorted by the format: naturally in YAML, bytewise in JSON.
    Map(BTreeMap<String, Value>),
    /// A map that was never made: as an empty one, but `null` in JSON.
    NoMap,
    /// Fields in declared order.
    Record(Vec<(&'static str, Value)>),
}

impl Value {
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }
}

impl From<BTreeMap<String, String>> for Value {
    fn from(map: BTreeMap<String, String>) -> Value {
        Value::Map(map.into_iter().map(|(key, text)| (key, Value::Text(text))).collect())
    }
}

impl From<&serde_json::Value> for Value {
    /// Integers stay integers: `1000000`, not Juju's `1e+06` (spec/hook-tools.md 9.2).
    fn from(json: &serde_json::Value) -> Value {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Nil,
            Json::Bool(yes) => Value::Bool(*yes),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Value::Integer(integer),
                (None, float) => Value::Float(float.unwrap_or_default()),
            },
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Value::from).collect()),
            Json::Object(members) => {
                Value::Map(members.iter().map(|(key, value)| (key.clone(), Value::from(value))).collect())
            }
        }
    }
}
