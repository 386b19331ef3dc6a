//! action-set: sets results of the running action (spec/hook-tools.md 2.7).
//!
//! Either all pairs of a call are applied or none.

use crate::action_get::running_action;
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use serde_json::{Map, Value};

pub const TOOL: Tool = Tool {
    name: "action-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Set action results.",
    details: "Dots in a key create nested maps. Values are stored as text, unchanged.",
    flags: &[],
    requires_utf8: true,
    is_confidential: false,
    run,
};

/// Deepest nesting of results. The controller accepts 24 levels (`OUTCOME_DEPTH_MAX` in `state::agents::record_bounds`).
const DEPTH_MAX: usize = 16;

/// Results that the agent itself adds.
const RESERVED: [&str; 4] = ["stdout", "stdout-encoding", "stderr", "stderr-encoding"];

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let mut pairs = Vec::new();
    for word in &call.parsed.positionals {
        let Some((path, value)) = word.split_once('=') else {
            return usage(format!("argument {} must be of the form key...=value", quote(word)));
        };
        let keys: Vec<&str> = path.split('.').collect();
        if keys.len() > DEPTH_MAX {
            return usage(format!("key {} is nested deeper than {DEPTH_MAX}", quote(path)));
        }
        for key in &keys {
            if !is_key(key) {
                return usage(format!(
                    "key {} must start and end with lowercase alphanumeric, and contain only lowercase \
                     alphanumeric, hyphens and periods",
                    quote(key)
                ));
            }
            if RESERVED.contains(key) {
                return usage(format!("cannot set reserved action key {}", quote(key)));
            }
        }
        pairs.push((keys, value));
    }
    running_action(call.context)?;
    let mut action = call.context.writes.action.clone();
    for (keys, value) in pairs {
        insert(&mut action.results, &keys, value);
    }
    call.context.write_action(action)?;
    Ok(ToolOutput::silent())
}

fn is_key(key: &str) -> bool {
    let is_alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    key.bytes().all(|b| is_alphanumeric(b) || b == b'-')
        && key.bytes().next().is_some_and(is_alphanumeric)
        && key.bytes().last().is_some_and(is_alphanumeric)
}

/// Inserts `value` at the path `keys`. Maps are merged; text replaces a map, and a map replaces text.
fn insert(results: &mut Map<String, Value>, keys: &[&str], value: &str) {
    let [key, deeper @ ..] = keys else { return };
    if deeper.is_empty() {
        results.insert((*key).to_owned(), Value::String(value.to_owned()));
        return;
    }
    let slot = results.entry(*key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    insert(slot.as_object_mut().expect("the slot was replaced by a map above"), deeper, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::{action_context, call};
    use serde_json::json;

    #[test]
    fn nested_keys_merge_and_text_and_maps_replace_each_other() {
        let mut context = action_context();
        for words in [["a.b=1", "a.c= 2 "], ["x=text", "y.z=map"], ["x.y=3", "y=text"]] {
            assert_eq!(call(&mut context, "action-set", &words).code, 0);
        }
        let results = Value::Object(context.writes.action.results);
        assert_eq!(results, json!({"a": {"b": "1", "c": " 2 "}, "x": {"y": "3"}, "y": "text"}));
    }

    #[test]
    fn an_invalid_pair_discards_the_whole_call() {
        let mut context = action_context();
        for bad in ["Key=1", "a..b=1", "-a=1", "a.stdout=1", "abc", "=x"] {
            assert_eq!(call(&mut context, "action-set", &["--", "ok=1", bad]).code, 2, "{bad}");
        }
        assert!(context.writes.action.is_empty());
    }
}
