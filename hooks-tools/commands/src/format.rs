//! `--format smart | yaml | json` (spec/hook-tools.md 1.5).

use crate::value::Value;
use crate::{json, yaml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Smart,
    Yaml,
    Json,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Smart => "smart",
            Format::Yaml => "yaml",
            Format::Json => "json",
        }
    }

    /// What is printed for `value`, final newline included; perhaps nothing.
    pub fn write(self, value: &Value) -> String {
        match self {
            Format::Json => json::write(value) + "\n",
            Format::Yaml => match value {
                Value::Nil => String::new(),
                _ => yaml::write(value),
            },
            Format::Smart => match value {
                Value::Nil | Value::NoNames => String::new(),
                Value::Text(text) if text.is_empty() => String::new(),
                Value::Text(text) => format!("{text}\n"),
                Value::Bool(yes) => if *yes { "True\n" } else { "False\n" }.to_owned(),
                Value::Names(names) if names.is_empty() => String::new(),
                Value::Names(names) => names.join("\n") + "\n",
                Value::Integer(_)
                | Value::Float(_)
                | Value::List(_)
                | Value::Map(_)
                | Value::NoMap
                | Value::Record(_) => yaml::write(value),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smart_prints_nothing_for_nothing() {
        for value in [Value::Nil, Value::text(""), Value::Names(Vec::new()), Value::NoNames] {
            assert_eq!(Format::Smart.write(&value), "");
        }
        assert_eq!(Format::Smart.write(&Value::NoMap), "{}\n");
    }

    #[test]
    fn names_are_lines_in_smart_and_lists_elsewhere() {
        let names = Value::Names(vec!["a".to_owned(), "1".to_owned()]);
        assert_eq!(Format::Smart.write(&names), "a\n1\n");
        assert_eq!(Format::Yaml.write(&names), "- a\n- \"1\"\n");
        assert_eq!(Format::Json.write(&names), "[\"a\",\"1\"]\n");
    }

    #[test]
    fn what_was_never_made_is_null_in_json_only() {
        assert_eq!(Format::Json.write(&Value::NoNames), "null\n");
        assert_eq!(Format::Yaml.write(&Value::NoNames), "[]\n");
        assert_eq!(Format::Yaml.write(&Value::Nil), "");
    }
}
