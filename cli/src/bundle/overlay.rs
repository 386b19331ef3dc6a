//! Applies overlays to the document of a bundle, before it is read.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Applies an overlay: an application that is null is removed with its relations, maps are merged, relations are added,
/// and any other value replaces the one before.
pub(super) fn merge(bundle: &mut Map<String, Value>, overlay: Map<String, Value>) {
    for (key, value) in overlay {
        match (key.as_str(), bundle.get_mut(&key), value) {
            ("applications", Some(Value::Object(before)), Value::Object(changes)) => {
                let removed: BTreeSet<String> = changes
                    .iter()
                    .filter(|(_, change)| change.is_null())
                    .map(|(name, _)| name.clone())
                    .collect();
                for (name, change) in changes {
                    match change {
                        Value::Null => drop(before.remove(&name)),
                        change => merge_value(before.entry(name).or_insert(Value::Null), change),
                    }
                }
                if let Some(Value::Array(relations)) = bundle.get_mut("relations") {
                    relations.retain(|relation| !names_any(relation, &removed));
                }
            }
            ("relations", Some(Value::Array(before)), Value::Array(more)) => before.extend(more),
            (_, Some(Value::Object(before)), Value::Object(changes)) => before.extend(changes),
            (_, _, value) => drop(bundle.insert(key, value)),
        }
    }
}

fn merge_value(before: &mut Value, change: Value) {
    match (before, change) {
        (Value::Object(before), Value::Object(changes)) => {
            for (key, change) in changes {
                merge_value(before.entry(key).or_insert(Value::Null), change);
            }
        }
        (before, change) => *before = change,
    }
}

/// Whether a relation has an end of one of these applications.
fn names_any(relation: &Value, applications: &BTreeSet<String>) -> bool {
    match relation {
        Value::String(end) => applications.contains(application_of(end)),
        Value::Array(ends) => ends.iter().any(|end| names_any(end, applications)),
        _ => false,
    }
}

/// The application of an end of a relation: `web` of `web:db`.
pub(super) fn application_of(end: &str) -> &str {
    end.split_once(':').map_or(end, |(application, _)| application)
}
