//! Splits charmcraft.yaml into metadata.yaml, config.yaml and actions.yaml (spec/clients.md 4.7), and reads its bases and what
//! it declares about Python packages.
//!
//! Many source folders have charmcraft.yaml only. Packing writes the three files, as `charmcraft pack` does, because
//! charms read them at run time; the ops framework does. Called by `read` for folders.

use crate::problem::Checker;
use serde_json::{Map, Value};
use state::charm::Base;

/// Keys that have the same meaning in charmcraft.yaml and in metadata.yaml.
const SHARED_KEYS: [&str; 15] = [
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

/// The keys below `links` in charmcraft.yaml, and the keys of metadata.yaml that they become.
const LINKS: [(&str, &str); 5] = [
    ("contact", "maintainers"),
    ("documentation", "docs"),
    ("issues", "issues"),
    ("source", "source"),
    ("website", "website"),
];

/// The content of the three files that charmcraft.yaml is split into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// The content of metadata.yaml.
    pub metadata: Value,
    /// The content of config.yaml; `None` if charmcraft.yaml declares no config.
    pub config: Option<Value>,
    /// The content of actions.yaml; `None` if charmcraft.yaml declares no actions.
    pub actions: Option<Value>,
}

/// The tool with which charmcraft installs the packages of a charm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonTool {
    /// pip, with requirements files.
    Pip,
    /// uv, with pyproject.toml and uv.lock.
    Uv,
    /// Poetry, with pyproject.toml and poetry.lock.
    Poetry,
}

impl PythonTool {
    /// The name of the tool in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            PythonTool::Pip => "pip",
            PythonTool::Uv => "uv",
            PythonTool::Poetry => "poetry",
        }
    }
}

/// The Python requirements that the parts of charmcraft.yaml declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonRequirements {
    /// The tool of the part that contains the charm; `None` if no part has a plugin for Python.
    pub tool: Option<PythonTool>,
    /// Packages, each a line of a requirements file.
    pub lines: Vec<String>,
    /// Paths of requirements files below the charm's folder.
    pub files: Vec<String>,
    /// Groups of dependencies in pyproject.toml that the charm needs in addition to its main dependencies.
    pub groups: Vec<String>,
    /// Extras of the project in pyproject.toml that the charm needs.
    pub extras: Vec<String>,
}

/// Splits the parsed file and reports problems to `checker`.
pub fn split(file: &Value, checker: &mut Checker) -> Split {
    let Value::Object(root) = file else {
        checker.add("", "expected a map of keys");
        return Split::default();
    };
    match root.get("type").and_then(Value::as_str) {
        None | Some("charm") => {}
        Some(other) => checker.add("type", format!("expected charm, got {other}")),
    }
    if root.get("extensions").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
        checker.add(
            "extensions",
            "only charmcraft can expand extensions: run charmcraft pack and deploy the archive",
        );
    }
    let mut metadata = Map::new();
    for key in SHARED_KEYS {
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

/// Returns the Python requirements of all parts.
pub fn python_requirements(file: &Value) -> PythonRequirements {
    let parts = file.get("parts").and_then(Value::as_object).into_iter().flat_map(|parts| parts.values());
    let mut requirements = PythonRequirements::default();
    for part in parts {
        let list = |key: &str| {
            let values = part.get(key).and_then(Value::as_array).into_iter().flatten();
            values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        for key in ["python-packages", "charm-python-packages", "charm-binary-python-packages"] {
            requirements.lines.extend(list(key));
        }
        // These packages build the charm and are not needed when it runs.
        requirements.lines.retain(|line| !["pip", "setuptools", "wheel"].contains(&line.as_str()));
        for key in ["charm-requirements", "python-requirements"] {
            requirements.files.extend(list(key));
        }
        requirements.groups.extend(["uv-groups", "poetry-with"].into_iter().flat_map(list));
        requirements.extras.extend(list("uv-extras"));
        requirements.groups.extend(poetry_groups(&list("poetry-export-extra-args")));
        let tool = match part.get("plugin").and_then(Value::as_str) {
            Some("charm" | "python" | "reactive") => Some(PythonTool::Pip),
            Some("uv") => Some(PythonTool::Uv),
            Some("poetry") => Some(PythonTool::Poetry),
            _ => None,
        };
        requirements.tool = requirements.tool.or(tool);
    }
    requirements
}

/// Returns the bases for which charmcraft would pack the charm, the first one preferred.
pub fn bases(file: &Value) -> Vec<Base> {
    let mut bases: Vec<Base> =
        file.get("base").and_then(Value::as_str).and_then(Base::parse).into_iter().collect();
    // `ubuntu@22.04:amd64`, one for each base and architecture
    let platforms = file.get("platforms").and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
    bases.extend(platforms.filter_map(|name| Base::parse(name.split(':').next()?)));
    for entry in file.get("bases").and_then(Value::as_array).into_iter().flatten() {
        let run_on = entry.get("run-on").and_then(Value::as_array).cloned();
        for base in run_on.unwrap_or_else(|| vec![entry.clone()]) {
            // YAML reads an unquoted 22.04 as a number
            let channel =
                base.get("channel").map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned));
            let name = base.get("name").and_then(Value::as_str).unwrap_or_default();
            bases.extend(Base::parse(&format!("{name}@{}", channel.unwrap_or_default())));
        }
    }
    let mut unique = Vec::new();
    for base in bases {
        if !unique.contains(&base) {
            unique.push(base);
        }
    }
    unique
}

/// The groups in arguments of `poetry export`: `--with a,b`, `--only=main,c`. The main dependencies have no group.
fn poetry_groups(args: &[String]) -> Vec<String> {
    let words: Vec<&str> = args.iter().flat_map(|arg| arg.split(['=', ' '])).collect();
    let lists = words.windows(2).filter(|pair| pair[0] == "--with" || pair[0] == "--only");
    let groups = lists.flat_map(|pair| pair[1].split(',')).filter(|group| *group != "main");
    groups.map(str::to_owned).collect()
}

/// Reports every section that is declared both in charmcraft.yaml and in a file of its own, because one of the two
/// would be ignored silently. `own_files` holds each section with whether it has such a file.
pub fn check_duplicate_sections(file: &Value, own_files: &[(&str, bool)], checker: &mut Checker) {
    for (section, has_file) in own_files {
        if *has_file && file.get(*section).is_some_and(|value| !value.is_null()) {
            checker.add(section, format!("is also declared in {section}.yaml: keep one of the two"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn charmcraft_yaml_is_split_into_the_three_files() {
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
    fn bases_are_declared_in_three_ways() {
        let of = |file: Value| bases(&file).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of(json!({"base": "ubuntu@24.04", "platforms": {"amd64": null}})), ["ubuntu@24.04"]);
        let platforms = json!({"ubuntu@22.04:amd64": null, "ubuntu@22.04:arm64": null, "ubuntu@24.04": null});
        assert_eq!(of(json!({"platforms": platforms})), ["ubuntu@22.04", "ubuntu@24.04"]);
        let bases = json!([
            {"build-on": [{"name": "ubuntu", "channel": "20.04"}], "run-on": [{"name": "ubuntu", "channel": 22.04}]},
            {"name": "debian", "channel": "12"},
        ]);
        assert_eq!(of(json!({"bases": bases})), ["ubuntu@22.04", "debian@12"]);
        assert_eq!(of(json!({})), [""; 0]);
    }

    #[test]
    fn the_plugin_of_a_part_decides_where_requirements_are() {
        let file = json!({"parts": {
            "files": {"plugin": "dump"},
            "charm": {"plugin": "poetry", "poetry-export-extra-args": ["--only", "main,libs", "--with=more"]},
        }});
        let requirements = python_requirements(&file);
        assert_eq!(requirements.tool, Some(PythonTool::Poetry));
        assert_eq!(requirements.groups, ["libs", "more"]);
        let file = json!({"parts": {"charm": {"plugin": "uv", "uv-groups": ["g"], "uv-extras": ["e"]}}});
        let requirements = python_requirements(&file);
        assert_eq!(requirements.tool, Some(PythonTool::Uv));
        assert_eq!((requirements.groups, requirements.extras), (vec!["g".to_owned()], vec!["e".to_owned()]));
        let file = json!({"parts": {"charm": {"plugin": "charm", "charm-requirements": ["r.txt"]}}});
        let requirements = python_requirements(&file);
        assert_eq!(
            (requirements.tool, requirements.files),
            (Some(PythonTool::Pip), vec!["r.txt".to_owned()])
        );
    }

    #[test]
    fn bundles_extensions_and_duplicate_sections_are_refused() {
        let file = json!({"type": "bundle", "extensions": ["django-framework"], "config": {"options": {}}});
        let mut checker = Checker::new("charmcraft.yaml");
        split(&file, &mut checker);
        check_duplicate_sections(&file, &[("config", true), ("actions", true)], &mut checker);
        let places: Vec<&str> = checker.problems.iter().map(|problem| problem.location.as_str()).collect();
        assert_eq!(places, ["type", "extensions", "config"]);
    }
}
