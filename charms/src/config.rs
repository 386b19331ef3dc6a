//! Reads config.yaml: the options that a user may set (spec/clients.md 4.4).
//!
//! Every problem is reported with its key. Called by `declaration`.

use crate::problem::{Checker, describe, join};
use serde_json::Value;
use state::charm::{Charm, ConfigOption, OptionType};

const TYPES: [(&str, OptionType); 5] = [
    ("string", OptionType::String),
    ("int", OptionType::Int),
    ("float", OptionType::Float),
    ("boolean", OptionType::Boolean),
    ("secret", OptionType::Secret),
];

/// Reads the parsed file into `charm`, and reports problems to `checker` and doubtful declarations to `notes`.
pub fn read(file: &Value, charm: &mut Charm, checker: &mut Checker, notes: &mut Vec<String>) {
    let root = checker.map("", Some(file));
    for (name, value) in checker.map("options", root.get("options")) {
        let place = join("options", &name);
        let map = checker.map(&place, Some(&value));
        let option_type = match map.get("type") {
            None | Some(Value::Null) => {
                notes.push(format!("config option {name:?} declares no type; assuming string"));
                Some(OptionType::String)
            }
            declared => checker.choice(&join(&place, "type"), declared, &TYPES),
        };
        // An invalid type is one problem, not two, so the default is not checked against it.
        let default = match (option_type, map.get("default")) {
            (None, _) | (_, None | Some(Value::Null)) => None,
            // Charms write an empty string for "no default", whatever the type.
            (Some(kind), Some(Value::String(text))) if text.is_empty() && kind != OptionType::String => None,
            (Some(option_type), Some(default)) => {
                let coerced = option_type.coerce(default);
                if coerced.is_none() {
                    let text = format!("expected {}, got {}", option_type.name(), describe(default));
                    checker.add(&join(&place, "default"), text);
                }
                coerced
            }
        };
        let description =
            checker.any_text(&join(&place, "description"), map.get("description")).unwrap_or_default();
        charm
            .config
            .insert(name, ConfigOption { kind: option_type.unwrap_or_default(), default, description });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The charm, the places of the problems, and the notes.
    fn read_text(text: &str) -> (Charm, Vec<String>, Vec<String>) {
        let (mut charm, mut checker, mut notes) = (Charm::default(), Checker::new("config.yaml"), Vec::new());
        read(&crate::yaml::from_str(text).expect("yaml"), &mut charm, &mut checker, &mut notes);
        (charm, checker.problems.into_iter().map(|problem| problem.location).collect(), notes)
    }

    #[test]
    fn defaults_have_the_type_of_their_option() {
        let (charm, problems, notes) = read_text(
            "options:\n  a: {type: int, default: 0644}\n  b: {type: float, default: 2}\n  \
             c: {type: boolean, default: no}\n  d: {type: string, default: '', description: text}\n  \
             e: {default: x}\n  f: {type: string}\n  g: {type: int, default: ''}\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let default = |name: &str| charm.config[name].default.clone();
        assert_eq!(default("a"), Some(json!(420)));
        assert_eq!(default("b"), Some(json!(2.0)));
        assert_eq!(default("c"), Some(json!(false)));
        assert_eq!(default("d"), Some(json!("")));
        assert_eq!((default("f"), default("g")), (None, None));
        assert!(matches!(&notes[..], [one] if one.contains("\"e\"") && one.contains("string")), "{notes:?}");
    }

    #[test]
    fn a_description_may_be_any_single_value() {
        let (charm, problems, _) = read_text(
            "options:\n  a: {type: string, description: 1.5}\n  b: {type: string, description: n}\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((&*charm.config["a"].description, &*charm.config["b"].description), ("1.5", "false"));
    }

    #[test]
    fn every_invalid_type_and_default_is_reported() {
        let (_, problems, _) = read_text(
            "options:\n  a: {type: list, default: 1}\n  b: {type: int, default: many}\n  \
             c: {type: string, default: 1.10}\n  d: 5\n  e: {type: string, description: [1]}\n",
        );
        assert_eq!(
            problems,
            [
                "options.a.type",
                "options.b.default",
                "options.c.default",
                "options.d",
                "options.e.description",
            ]
        );
    }
}
