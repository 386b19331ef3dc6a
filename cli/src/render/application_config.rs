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
        map.insert("value".into(), value.clone());
    }
    if let Some(default) = &option.default {
        map.insert("default".into(), default.clone());
    }
    map.into()
}

/// A single value on a line of its own; text without quotes.
pub fn unquoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        other => format!("{other}\n"),
    }
}
