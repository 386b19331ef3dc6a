//! What the programs say to each other: the OpenAPI document of each protocol version, with every route and message.
//!
//! Today's document of the same version must fit it in both directions. Unknown fields are ignored by every reader, so a
//! field may come or go where nobody requires it; a field that somebody requires, or a variant of a choice, may not.

use crate::samples::Samples;
use controller::openapi;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "openapi.json";

/// The same without descriptions, which are for people. A property with this name has a schema, not a text.
fn without_descriptions(part: &Value) -> Value {
    match part {
        Value::Object(fields) => {
            let is_kept = |(name, part): &(&String, &Value)| *name != "description" || !part.is_string();
            fields.iter().filter(is_kept).map(|(name, part)| (name, without_descriptions(part))).collect()
        }
        Value::Array(parts) => parts.iter().map(without_descriptions).collect(),
        part => part.clone(),
    }
}

/// Routes and messages without what is for people, one a line.
pub fn make() -> Samples {
    let document = without_descriptions(&openapi::document());
    let without_text = |operations: &Value| {
        let operations = operations.as_object().expect("a path has methods").iter();
        let messages = operations.map(|(method, operation)| {
            let parts = ["requestBody", "responses"].map(|part| (part.to_owned(), operation[part].clone()));
            (method.clone(), Value::from_iter(parts))
        });
        Value::from_iter(messages)
    };
    let lines = |entries: &Value, line: &dyn Fn(&Value) -> Value| {
        let entries = entries.as_object().expect("entries by name").iter();
        entries
            .map(|(name, entry)| format!("{}: {}", json!(name), line(entry)))
            .collect::<Vec<_>>()
            .join(",\n")
    };
    let paths = lines(&document["paths"], &without_text);
    let schemas = lines(&document["components"]["schemas"], &Value::clone);
    let text =
        format!("{{\"paths\": {{\n{paths}\n}}, \"components\": {{\"schemas\": {{\n{schemas}\n}}}}}}\n");
    Samples::from([(DOCUMENT.to_owned(), text)])
}

pub fn load(samples: &Samples) {
    let kept: Value = serde_json::from_str(&samples[DOCUMENT]).expect("it was JSON when it was kept");
    assert_eq!(differences(&kept, &openapi::document()), Vec::<String>::new());
}

/// Two documents, and what in them was compared.
struct Both<'a> {
    old: &'a Value,
    new: &'a Value,
    seen: BTreeSet<(String, String)>,
    wrong: Vec<String>,
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
        Some(place) => resolved(document, document.pointer(place).expect("references lead to schemas")),
        None => schema,
    }
}

fn words(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The variants of a choice by name: a word, a type, or an object's required fields.
fn variants<'a>(document: &'a Value, schema: &'a Value) -> BTreeMap<String, &'a Value> {
    let mut found = BTreeMap::new();
    let branches = ["oneOf", "anyOf"].iter().filter_map(|word| schema[*word].as_array()).flatten();
    for branch in branches.map(|branch| resolved(document, branch)) {
        let mut names = words(&branch["enum"]);
        names.extend(branch["const"].as_str().map(str::to_owned));
        if names.is_empty() {
            let required = words(&branch["required"]).into_iter().collect::<Vec<_>>().join("+");
            found.insert(format!("{}({required})", branch["type"].as_str().unwrap_or("any")), branch);
        }
        found.extend(names.into_iter().map(|name| (name, &Value::Null)));
    }
    found
}

impl Both<'_> {
    fn compare(&mut self, at: &str, old: &Value, new: &Value) {
        if let (Some(a), Some(b)) = (old["$ref"].as_str(), new["$ref"].as_str())
            && !self.seen.insert((a.to_owned(), b.to_owned()))
        {
            return;
        }
        let (old, new) = (resolved(self.old, old).clone(), resolved(self.new, new).clone());
        let (a, b) = (variants(self.old, &old), variants(self.new, &new));
        for name in a.keys().filter(|name| !b.contains_key(*name)) {
            self.wrong.push(format!("{at}: variant {name} is gone"));
        }
        for name in b.keys().filter(|name| !a.contains_key(*name)) {
            self.wrong.push(format!("{at}: variant {name} is new"));
        }
        for (name, old) in &a {
            if let Some(new) = b.get(name) {
                self.compare(&format!("{at}.{name}"), &(*old).clone(), &(*new).clone());
            }
        }
        for word in ["type", "enum", "const", "format", "minimum", "maximum", "minItems", "maxItems"] {
            if old[word] != new[word] {
                self.wrong.push(format!("{at}: {word} was {}, is {}", old[word], new[word]));
            }
        }
        let (required, requires) = (words(&old["required"]), words(&new["required"]));
        for name in required.symmetric_difference(&requires) {
            self.wrong.push(format!("{at}: {name} is required by one version only"));
        }
        for word in ["properties", "patternProperties"] {
            for (name, old) in old[word].as_object().into_iter().flatten() {
                if let Some(new) = new[word].get(name) {
                    self.compare(&format!("{at}.{name}"), old, new);
                }
            }
        }
        let items = |schema: &Value| schema["prefixItems"].as_array().cloned().unwrap_or_default();
        for (index, (old, new)) in items(&old).iter().zip(&items(&new)).enumerate() {
            self.compare(&format!("{at}.{index}"), old, new);
        }
        for word in ["items", "additionalProperties"] {
            if let (Some(old), Some(new)) = (old.get(word), new.get(word)) {
                self.compare(&format!("{at}.{word}"), old, new);
            }
        }
    }
}

/// What keeps programs of the two versions from understanding each other.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut both = Both { old, new, seen: BTreeSet::new(), wrong: Vec::new() };
    for (path, methods) in old["paths"].as_object().expect("a document has paths") {
        for (method, before) in methods.as_object().expect("a path has methods") {
            let Some(now) = new["paths"][path].get(method) else {
                both.wrong.push(format!("{method} {path} is gone"));
                continue;
            };
            for part in ["/requestBody/content", "/responses/200/content", "/responses/default/content"] {
                for (kind, old) in before.pointer(part).and_then(Value::as_object).into_iter().flatten() {
                    let new = now.pointer(part).map_or(&Value::Null, |content| &content[kind]["schema"]);
                    both.compare(&format!("{path} {part}"), &old["schema"], new);
                }
            }
        }
    }
    both.wrong
}

#[test]
fn what_the_other_program_cannot_read_or_does_not_send_is_found() {
    let document = |schema: Value| {
        let content = json!({"application/json": {"schema": schema}});
        json!({"paths": {"/v1/x": {"post": {"requestBody": {"content": content}}}}})
    };
    let object = |required: &[&str], kind: &str| json!({"type": "object", "required": required, "properties": {"a": {"type": kind}, "b": {"type": "string"}}});
    let choice = |words: &[&str]| json!({"oneOf": [{"type": "string", "enum": words}]});
    let found = |old: Value, new: Value| differences(&document(old), &document(new)).len();
    assert_eq!(found(object(&["a"], "string"), object(&["a"], "string")), 0);
    assert_eq!(found(object(&["a"], "string"), object(&["a", "b"], "string")), 1, "it would not be sent");
    assert_eq!(found(object(&["a", "b"], "string"), object(&["a"], "string")), 1, "it might not be sent");
    assert_eq!(found(object(&["a"], "string"), object(&["a"], "integer")), 1);
    assert_eq!(found(choice(&["x"]), choice(&["x", "y"])), 1, "an unknown word");
    assert_eq!(found(choice(&["x", "y"]), choice(&["x"])), 1, "a word that is gone");
    let removed = json!({"paths": {"/v1/x": {}}});
    assert_eq!(differences(&document(json!({})), &removed).len(), 1);
}
