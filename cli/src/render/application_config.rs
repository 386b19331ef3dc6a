//! The document of `config APP`: the settings of an application (spec/clients.md 2.4 "config").

use api::{ApplicationConfig, Setting};
use serde_json::{Map, Value, json};

/// The document, for JSON and YAML.
pub fn document(config: &ApplicationConfig) -> Value {
    let settings: Map<String, Value> =
        config.settings.iter().map(|(name, option)| (name.clone(), setting(option))).collect();
    let trust = "Does this application have access to trusted credentials";
    let source = if config.trusted { "user" } else { "default" };
    json!({
        "application": config.application,
        "charm": config.charm,
        "application-config": {
            "trust": {
                "type": "bool", "value": config.trusted, "default": false, "source": source, "description": trust,
            },
        },
        "settings": settings,
    })
}

/// One setting. An option without a value has no key `value`, which clients read as unset.
fn setting(option: &Setting) -> Value {
    let source = match (&option.value, option.user) {
        (None, _) => "unset",
        (Some(_), true) => "user",
        (Some(_), false) => "default",
    };
    let mut map = Map::new();
    map.insert("type".into(), option.kind.name().into());
    map.insert("description".into(), option.description.clone().into());
    map.insert("source".into(), source.into());
    if let Some(value) = &option.value {
        map.insert("value".into(), without_fraction(value));
    }
    if let Some(default) = &option.default {
        map.insert("default".into(), without_fraction(default));
    }
    map.into()
}

/// The largest magnitude below which each whole floating-point number is an integer of 64 bits without loss: 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A floating-point number without a fraction as an integer, as Juju prints it; any other value as it is.
fn without_fraction(value: &Value) -> Value {
    match value.as_f64().filter(|_| value.is_f64()) {
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number within the range")]
        Some(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => Value::from(number as i64),
        _ => value.clone(),
    }
}

/// A single value on a line of its own; text without quotes.
pub fn unquoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        other => format!("{}\n", without_fraction(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_without_a_fraction_is_printed_as_juju_prints_it() {
        let printed = [json!(1.0), json!(1000.0), json!(-0.5), json!(1e300), json!(3), json!("1.0")];
        let expected = ["1\n", "1000\n", "-0.5\n", "1e+300\n", "3\n", "1.0\n"];
        assert_eq!(printed.each_ref().map(unquoted), expected);
    }
}
