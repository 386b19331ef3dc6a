//! charmcraft.yaml: the one file many source folders have. Packing writes the classic three files from it, because
//! charms (the ops framework among them) read those at run time (spec/clients.md 4.7).

use crate::problem::Checker;
use serde_json::{Map, Value};

/// Keys that mean the same in metadata.yaml.
const SAME: [&str; 15] = [
    "name",
    "summary",
    "description",
    "subordinate",
    "provides",
    "requires",
    "peers",
    "storage",
    "resources",
    "containers",
    "devices",
    "extra-bindings",
    "assumes",
    "charm-user",
    "terms",
];

/// charmcraft's links and the keys of metadata.yaml they become.
const LINKS: [(&str, &str); 5] = [
    ("contact", "maintainers"),
    ("documentation", "docs"),
    ("issues", "issues"),
    ("source", "source"),
    ("website", "website"),
];

/// The three classic files as charmcraft.yaml holds them; config and actions are none when it has no such key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    pub metadata: Value,
    pub config: Option<Value>,
    pub actions: Option<Value>,
}

/// Splits the parsed file; what is wrong goes to `checker`.
pub fn split(file: &Value, checker: &mut Checker) -> Split {
    let Value::Object(root) = file else {
        checker.say("", "expected a map of keys");
        return Split::default();
    };
    match root.get("type").and_then(Value::as_str) {
        None | Some("charm") => {}
        Some(other) => checker.say("type", format!("expected charm, got {other}")),
    }
    if root.get("extensions").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
        checker.say(
            "extensions",
            "an extension can only be expanded by charmcraft: pack the charm and deploy that",
        );
    }
    let mut metadata = Map::new();
    for key in SAME {
        metadata.extend(root.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    metadata.extend(root.get("title").map(|title| ("display-name".to_owned(), title.clone())));
    let links = checker.map("links", root.get("links"));
    for (link, key) in LINKS {
        metadata.extend(links.get(link).map(|value| (key.to_owned(), value.clone())));
    }
    let section = |key: &str| root.get(key).filter(|value| !value.is_null()).cloned();
    Split { metadata: Value::Object(metadata), config: section("config"), actions: section("actions") }
}

/// The Python packages its parts ask for, as lines of a requirements file, and the requirements files they name.
pub fn python_requirements(file: &Value) -> (Vec<String>, Vec<String>) {
    let parts = file.get("parts").and_then(Value::as_object).into_iter().flat_map(|parts| parts.values());
    let (mut lines, mut files) = (Vec::new(), Vec::new());
    for part in parts {
        let list = |key: &str| {
            let values = part.get(key).and_then(Value::as_array).into_iter().flatten();
            values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        for key in ["python-packages", "charm-python-packages", "charm-binary-python-packages"] {
            lines.extend(list(key));
        }
        // Tools of the build itself, not needed when the charm runs.
        lines.retain(|line| !["pip", "setuptools", "wheel"].contains(&line.as_str()));
        for key in ["charm-requirements", "python-requirements"] {
            files.extend(list(key));
        }
    }
    (lines, files)
}

/// Says so when a section stands both in charmcraft.yaml and in its own file: one of them would silently lose.
pub fn check_twice(file: &Value, own_files: &[(&str, bool)], checker: &mut Checker) {
    for (section, has_file) in own_files {
        if *has_file && file.get(*section).is_some_and(|value| !value.is_null()) {
            checker.say(section, format!("is also in {section}.yaml: keep one of them"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_classic_files_come_out() {
        let file = json!({
            "type": "charm", "name": "web", "title": "The Web", "summary": "s", "description": "d",
            "base": "ubuntu@24.04", "platforms": {"amd64": null}, "parts": {"web": {"plugin": "uv"}},
            "links": {"contact": "me", "documentation": "https://example.com"},
            "requires": {"db": {"interface": "sql"}}, "config": {"options": {}}, "actions": {"go": null},
        });
        let mut checker = Checker::new("charmcraft.yaml");
        let split = split(&file, &mut checker);
        assert_eq!(checker.problems, []);
        let expected = json!({
            "name": "web", "display-name": "The Web", "summary": "s", "description": "d", "maintainers": "me",
            "docs": "https://example.com", "requires": {"db": {"interface": "sql"}},
        });
        assert_eq!(split.metadata, expected);
        assert_eq!((split.config, split.actions), (Some(json!({"options": {}})), Some(json!({"go": null}))));
    }

    #[test]
    fn bundles_extensions_and_doubled_sections_are_refused() {
        let file = json!({"type": "bundle", "extensions": ["django-framework"], "config": {"options": {}}});
        let mut checker = Checker::new("charmcraft.yaml");
        split(&file, &mut checker);
        check_twice(&file, &[("config", true), ("actions", true)], &mut checker);
        let lines: Vec<String> = checker.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "charmcraft.yaml: type: expected charm, got bundle",
                "charmcraft.yaml: extensions: an extension can only be expanded by charmcraft: pack the charm and deploy that",
                "charmcraft.yaml: config: is also in config.yaml: keep one of them",
            ]
        );
    }
}
