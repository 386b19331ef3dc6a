//! The output formats `smart`, `yaml` and `json` (spec/hook-tools.md 1.5).
//!
//! The bytes are those that Juju prints, because charms parse them.

use crate::value::Value;
use crate::{json, yaml};

/// A value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// Text for a shell: strings and lists of names as they are, everything else as YAML.
    Smart,
    /// YAML as goyaml.v2 writes it.
    Yaml,
    /// JSON as encoding/json of Go writes it.
    Json,
}

impl ToolFormat {
    /// The name of the format in `--format`.
    pub fn name(self) -> &'static str {
        match self {
            ToolFormat::Smart => "smart",
            ToolFormat::Yaml => "yaml",
            ToolFormat::Json => "json",
        }
    }

    /// The text for `value` with its final newline; empty if the format prints nothing for it.
    pub fn write(self, value: &Value) -> String {
        match self {
            ToolFormat::Json => json::write(value) + "\n",
            ToolFormat::Yaml => match value {
                Value::Nil => String::new(),
                _ => yaml::write(value),
            },
            ToolFormat::Smart => match value {
                Value::Nil | Value::NilNames => String::new(),
                Value::Text(text) if text.is_empty() => String::new(),
                Value::Text(text) => format!("{text}\n"),
                Value::Bool(yes) => if *yes { "True\n" } else { "False\n" }.to_owned(),
                Value::Names(names) if names.is_empty() => String::new(),
                Value::Names(names) => names.join("\n") + "\n",
                Value::Time(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::List(_)
                | Value::Map(_)
                | Value::NilMap
                | Value::Record(_) => yaml::write(value),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smart_prints_nothing_for_empty_values() {
        for value in [Value::Nil, Value::text(""), Value::Names(Vec::new()), Value::NilNames] {
            assert_eq!(ToolFormat::Smart.write(&value), "");
        }
        assert_eq!(ToolFormat::Smart.write(&Value::NilMap), "{}\n");
    }

    #[test]
    fn names_are_lines_in_smart_and_lists_elsewhere() {
        let names = Value::Names(vec!["a".to_owned(), "1".to_owned()]);
        assert_eq!(ToolFormat::Smart.write(&names), "a\n1\n");
        assert_eq!(ToolFormat::Yaml.write(&names), "- a\n- \"1\"\n");
        assert_eq!(ToolFormat::Json.write(&names), "[\"a\",\"1\"]\n");
    }

    #[test]
    fn a_nil_list_is_null_in_json_only() {
        assert_eq!(ToolFormat::Json.write(&Value::NilNames), "null\n");
        assert_eq!(ToolFormat::Yaml.write(&Value::NilNames), "[]\n");
        assert_eq!(ToolFormat::Yaml.write(&Value::Nil), "");
    }
}
