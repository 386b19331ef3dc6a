//! The value that a tool prints, before it is written in a format.
//!
//! It distinguishes what the encoders of Go distinguish, for example a nil map from an empty one.

use std::collections::BTreeMap;

/// A value with the distinctions of Go's encoders (spec/hook-tools.md 1.5).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A number that is a float in Go. `3.0` prints as `3`.
    Float(f64),
    /// A string.
    Text(String),
    /// A time in RFC 3339. YAML prints it without quotes.
    Time(String),
    /// A list of names. The smart format prints one name on each line.
    Names(Vec<String>),
    /// A nil list of names: `null` in JSON, and an empty list in the other formats.
    NilNames,
    /// A list.
    List(Vec<Value>),
    /// A map. The format sorts the keys: in natural order in YAML, by bytes in JSON.
    Map(BTreeMap<String, Value>),
    /// A nil map: `null` in JSON, and an empty map in the other formats.
    NilMap,
    /// Fields in the order of their declaration.
    Record(Vec<(&'static str, Value)>),
}

impl Value {
    /// A string.
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
