//! Values as Python source, for the test that is made of a run.

use host::escape::json_as_yaml;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A string literal without control characters. The escapes of JSON are escapes of Python, too.
pub(super) fn string(text: &str) -> String {
    json_as_yaml(&Value::from(text).to_string()).into_owned()
}

/// A literal of a JSON value.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => dict(map.iter().map(|(key, value)| (string(key), literal(value)))),
    }
}

/// A dictionary of sources.
pub(super) fn dict(entries: impl Iterator<Item = (String, String)>) -> String {
    let entries: Vec<String> = entries.map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A dictionary of strings.
pub(super) fn strings(map: &BTreeMap<String, String>) -> String {
    dict(map.iter().map(|(key, value)| (string(key), string(value))))
}

/// A list or a set of sources, one per line.
pub(super) fn block(open: &str, items: &[String], close: &str, depth: usize) -> String {
    if items.is_empty() {
        return format!("{open}{close}");
    }
    let indent = "    ".repeat(depth);
    let mut text = format!("{open}\n");
    for item in items {
        writeln!(text, "{indent}    {item},").expect("a string can be written");
    }
    text + &indent + close
}

/// A call with its arguments, one per line.
pub(super) fn call(function: &str, arguments: &[String], depth: usize) -> String {
    block(&format!("{function}("), arguments, ")", depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_literals_of_python() {
        let value = json!({ "a": [true, null, 1.5, -3], "b\"": "x\n\u{1b}é\\\u{7f}" });
        assert_eq!(literal(&value), r#"{"a": [True, None, 1.5, -3], "b\"": "x\n\u001bé\\\u007f"}"#);
    }
}
