//! Reads bundles: YAML files that describe applications, machines and relations, and overlays that change them
//! (spec/clients.md 3.2).
//!
//! A bundle is read and verified as a whole before anything is sent to the controller. Paths are relative to the file that
//! contains them. `deploy` executes a bundle (`commands::deploy_bundle`).

mod overlay;

use crate::command_error::CommandError;
use crate::commands::bases;
use base64::Engine;
use charms::yaml;
use host::file::read_regular;
use overlay::{application_of, merge};
use serde::Deserialize;
use serde_json::{Map, Value};
use state::charm::Base;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The file of a bundle that is a folder.
const BUNDLE_FILE: &str = "bundle.yaml";

/// The largest number of units of one application of a bundle.
const UNITS_MAX: u32 = 1_000;
/// The most relations of a bundle.
const RELATIONS_MAX: usize = 1_000;
/// The largest file that is included as the value of an option: settings of a megabyte are refused by the controller.
const INCLUDED_BYTES_MAX: u64 = 1 << 20;
/// The keys of a bundle without a meaning here.
const BUNDLE_KEYS_IGNORED: [&str; 6] = ["name", "description", "series", "tags", "type", "variables"];
/// The keys of an application without a meaning here.
const APPLICATION_KEYS_IGNORED: [&str; 6] =
    ["annotations", "description", "name", "plan", "revision", "series"];

/// A bundle, with its overlays applied.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The base of machines, unless an application has its own.
    pub default_base: Option<String>,
    /// The applications by name.
    pub applications: BTreeMap<String, BundleApplication>,
    /// The machines that placements name; null stands for one without properties.
    pub machines: BTreeMap<String, Option<BundleMachine>>,
    /// The relations. The second end can be a list of ends.
    pub relations: Vec<[RelationEnds; 2]>,
}

/// One end of a relation, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum RelationEnds {
    /// `web` or `web:db`.
    One(String),
    /// Several ends, each of which is related to the other side.
    Many(Vec<String>),
}

impl RelationEnds {
    fn ends(&self) -> Vec<&String> {
        match self {
            RelationEnds::One(end) => vec![end],
            RelationEnds::Many(ends) => ends.iter().collect(),
        }
    }
}

/// An application of a bundle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleApplication {
    /// The path of the charm.
    pub charm: String,
    /// The number of units.
    #[serde(default, alias = "scale")]
    pub num_units: u32,
    /// Where the units are placed, in order: a machine of the bundle, an application, a unit, or `new`.
    #[serde(default, deserialize_with = "one_or_many")]
    pub to: Vec<String>,
    /// The settings that differ from the defaults of the charm.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The files of the charm's resources.
    #[serde(default)]
    pub resources: BTreeMap<String, String>,
    /// The storage of each unit, as the values of `--storage` after `NAME=`.
    #[serde(default)]
    pub storage: BTreeMap<String, String>,
    /// Whether the application is exposed.
    #[serde(default)]
    pub expose: bool,
    /// Whether the charm may read the credential of its cloud.
    #[serde(default)]
    pub trust: bool,
    /// The base of new machines.
    pub base: Option<String>,
    /// Constraints in the form in which they are typed.
    pub constraints: Option<String>,
    /// Spaces of the endpoints, which have no effect.
    #[serde(default)]
    pub bindings: Map<String, Value>,
    /// The channel of a charm store, which has no effect.
    pub channel: Option<String>,
}

/// A machine of a bundle. It has the base of the application that is placed on it first.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleMachine {
    /// Its base, which has no effect.
    pub base: Option<String>,
    /// Its series, which has no effect.
    pub series: Option<String>,
    /// Constraints, which have no effect.
    pub constraints: Option<String>,
    /// Annotations, which have no effect.
    #[serde(default)]
    pub annotations: Map<String, Value>,
}

/// Where a unit is placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// On a new machine.
    New,
    /// On a machine of the bundle.
    Machine(String),
    /// Beside the unit of this application with the same index, or with the given number.
    Beside(String, Option<u32>),
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = match Value::deserialize(deserializer)? {
        Value::Array(values) => values,
        Value::Null => Vec::new(),
        value => vec![value],
    };
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(serde::de::Error::custom(format!("invalid placement {other}"))),
    };
    values.into_iter().map(text).collect()
}

/// Returns the file of a bundle at this path; none if it is not a bundle, but perhaps a charm.
pub fn file_of(path: &Path) -> Option<PathBuf> {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if path.is_file() && is_yaml {
        return Some(path.to_owned());
    }
    let is_charm = ["metadata.yaml", "charmcraft.yaml"].iter().any(|file| path.join(file).exists());
    let file = path.join(BUNDLE_FILE);
    (!is_charm && file.is_file()).then_some(file)
}

/// Reads a bundle, and applies overlays in order: further documents of its file, and those of other files. `find` returns the path of a charm that the bundle names.
///
/// # Errors
/// If a file cannot be read, is not a bundle, or the bundle contradicts itself, and those of `find`.
pub fn read(
    file: &Path,
    overlays: &[PathBuf],
    find: impl Fn(&str) -> Result<PathBuf, CommandError>,
) -> Result<Bundle, CommandError> {
    let mut all = Map::new();
    for file in [file].into_iter().chain(overlays.iter().map(PathBuf::as_path)) {
        documents(file)?.into_iter().for_each(|document| merge(&mut all, document));
    }
    let to_error = |why: String| CommandError::new(format!("invalid bundle {}: {why}", file.display()));
    let mut bundle = parse(all).map_err(to_error)?;
    for application in bundle.applications.values_mut().filter(|application| !is_path(&application.charm)) {
        application.charm = find(&application.charm)?.display().to_string();
    }
    bundle.verify().map_err(to_error)?;
    Ok(bundle)
}

/// Reads each part of a bundle. An error names the part.
fn parse(mut all: Map<String, Value>) -> Result<Bundle, String> {
    fn part<T: serde::de::DeserializeOwned>(name: &str, value: Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))
    }
    if let Some(Value::Object(saas)) = all.remove("saas")
        && let Some(name) = saas.keys().next()
    {
        return Err(format!("saas: {name} is an application of another model, which is not offered here"));
    }
    let mut bundle = Bundle::default();
    for (key, value) in all {
        match key.as_str() {
            _ if value.is_null() || BUNDLE_KEYS_IGNORED.contains(&key.as_str()) => {}
            "default-base" => bundle.default_base = Some(part(&key, value)?),
            "machines" => bundle.machines = part(&key, value)?,
            "relations" => bundle.relations = part(&key, value)?,
            "applications" => {
                for (name, mut value) in part::<Map<String, Value>>(&key, value)? {
                    if let Some(map) = value.as_object_mut() {
                        map.retain(|key, _| !APPLICATION_KEYS_IGNORED.contains(&key.as_str()));
                    }
                    bundle.applications.insert(name.clone(), part(&format!("application {name}"), value)?);
                }
            }
            _ => return Err(format!("unknown key {key:?}")),
        }
    }
    Ok(bundle)
}

/// The documents of a file, one at least, with absolute paths and the contents of included files.
fn documents(file: &Path) -> Result<Vec<Map<String, Value>>, CommandError> {
    let to_error = |why: String| CommandError::new(format!("cannot read bundle {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| to_error(error.to_string()))?;
    let parsed = yaml::values(&text).map_err(|error| to_error(error.to_string()))?;
    let parsed = if parsed.is_empty() { vec![Value::Null] } else { parsed };
    let folder = file.parent().unwrap_or(Path::new("."));
    parsed.into_iter().map(|document| resolved(document, folder).map_err(to_error)).collect()
}

/// A document of a bundle in this folder, with absolute paths and the contents of included files.
fn resolved(document: Value, folder: &Path) -> Result<Map<String, Value>, String> {
    let Value::Object(mut map) = document else { return Err("expected a map".to_owned()) };
    // the name of bundles before Juju 2.6
    if let Some(services) = map.remove("services") {
        map.entry("applications").or_insert(services);
    }
    let Some(Value::Object(applications)) = map.get_mut("applications") else { return Ok(map) };
    for application in applications.values_mut() {
        resolve_paths(application, folder)?;
    }
    Ok(map)
}

/// Whether the charm of an application is a path. Any other name is one of the charm directories, also if the current folder
/// has an entry of this name.
fn is_path(charm: &str) -> bool {
    charm.starts_with(['.', '/'])
}

fn resolve_paths(application: &mut Value, folder: &Path) -> Result<(), String> {
    // without "./" in the middle: the path is shown
    let absolute = |text: &str| folder.join(text).components().collect::<PathBuf>().display().to_string();
    if let Some(Value::String(charm)) = application.get_mut("charm") {
        let path = charm.strip_prefix("local:").unwrap_or(charm);
        if is_path(path) {
            let path = absolute(path);
            *charm = if is_path(&path) { path } else { format!("./{path}") };
        }
    }
    if let Some(Value::Object(resources)) = application.get_mut("resources") {
        for path in resources.values_mut() {
            if let Value::String(text) = path {
                *text = absolute(text);
            }
        }
    }
    if let Some(Value::Object(options)) = application.get_mut("options") {
        for value in options.values_mut() {
            let Value::String(text) = value else { continue };
            let (path, is_base64) =
                match (text.strip_prefix("include-file://"), text.strip_prefix("include-base64://")) {
                    (Some(path), _) => (path, false),
                    (_, Some(path)) => (path, true),
                    _ => continue,
                };
            let path = folder.join(path);
            let (bytes, _) = read_regular(&path, INCLUDED_BYTES_MAX)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            *text = match is_base64 {
                true => base64::engine::general_purpose::STANDARD.encode(bytes),
                false => String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?,
            };
        }
    }
    Ok(())
}

impl Bundle {
    /// The relations, one pair of ends each.
    pub fn pairs(&self) -> Vec<[&String; 2]> {
        let mut pairs = Vec::new();
        for relation in &self.relations {
            for left in relation[0].ends() {
                pairs.extend(relation[1].ends().into_iter().map(|right| [left, right]));
            }
        }
        pairs
    }

    /// Where the units of an application are placed; the last placement is repeated.
    pub fn placements(&self, name: &str) -> Vec<Placement> {
        let Some(application) = self.applications.get(name) else { return Vec::new() };
        let given: Vec<Placement> = application.to.iter().map(|text| self.placement(text)).collect();
        let last = match given.last() {
            // units of an application that are placed beside another one go beside its next units
            Some(Placement::Beside(other, None)) => Placement::Beside(other.clone(), None),
            _ => Placement::New,
        };
        let units = application.num_units as usize;
        given.into_iter().chain(std::iter::repeat(last)).take(units).collect()
    }

    fn placement(&self, text: &str) -> Placement {
        if text == "new" {
            return Placement::New;
        }
        if self.machines.contains_key(text) {
            return Placement::Machine(text.to_owned());
        }
        match text.split_once('/').and_then(|(application, number)| Some((application, number.parse().ok()?)))
        {
            Some((application, number)) => Placement::Beside(application.to_owned(), Some(number)),
            None => Placement::Beside(text.to_owned(), None),
        }
    }

    /// The base of an application.
    pub fn base(&self, own: Option<&String>) -> Result<Option<Base>, CommandError> {
        let text = own.or(self.default_base.as_ref());
        let parsed = text.map(|text| {
            bases::parse(text).map_err(|why| CommandError::new(format!("invalid base {text:?}: {why}")))
        });
        parsed.transpose()
    }

    /// Returns what contradicts itself, or is not offered.
    fn verify(&self) -> Result<(), String> {
        if self.applications.is_empty() {
            return Err("it has no applications".to_owned());
        }
        let count = |[left, right]: &[RelationEnds; 2]| left.ends().len().saturating_mul(right.ends().len());
        if self.relations.iter().map(count).fold(0, usize::saturating_add) > RELATIONS_MAX {
            return Err(format!("it has more than {RELATIONS_MAX} relations"));
        }
        for [left, right] in self.pairs() {
            for end in [left, right] {
                if !self.applications.contains_key(application_of(end)) {
                    return Err(format!(
                        "relation {left} {right}: the bundle has no application {:?}",
                        application_of(end)
                    ));
                }
            }
        }
        for (name, application) in &self.applications {
            if application.num_units > UNITS_MAX {
                return Err(format!(
                    "application {name}: {} units, at most {UNITS_MAX}",
                    application.num_units
                ));
            }
            if !Path::new(&application.charm).exists() {
                return Err(format!("application {name}: no charm at {:?}", application.charm));
            }
            for text in &application.to {
                if text.contains(':') {
                    return Err(format!(
                        "application {name}: placement {text:?} in a container is not offered here"
                    ));
                }
                if let Placement::Beside(other, _) = self.placement(text)
                    && (!self.applications.contains_key(&other) || other == *name)
                {
                    return Err(format!(
                        "application {name}: the bundle has no machine or application {text:?}"
                    ));
                }
            }
        }
        self.order().map(drop)
    }

    /// The applications in an order in which each follows those beside which its units are placed.
    pub fn order(&self) -> Result<Vec<String>, String> {
        let mut ordered: Vec<String> = Vec::new();
        while ordered.len() < self.applications.len() {
            let is_ready = |name: &String| {
                self.placements(name).iter().all(|placement| match placement {
                    Placement::Beside(other, _) => ordered.contains(other),
                    Placement::New | Placement::Machine(_) => true,
                })
            };
            let next = self.applications.keys().find(|name| !ordered.contains(name) && is_ready(name));
            match next {
                Some(name) => ordered.push(name.clone()),
                None => return Err("applications are placed beside each other in a circle".to_owned()),
            }
        }
        Ok(ordered)
    }

    /// Warnings of what has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        for application in self.applications.values() {
            let given =
                [("bindings", !application.bindings.is_empty()), ("channel", application.channel.is_some())];
            found.extend(given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name));
        }
        for machine in self.machines.values().flatten() {
            let given = [
                ("bases of machines", machine.base.is_some()),
                ("constraints", machine.constraints.is_some()),
            ];
            found.extend(given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name));
        }
        found
            .into_iter()
            .map(|name| format!("{name} of the bundle have no effect: every machine runs on this host"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(text: &str, overlay: Option<&str>) -> Result<Bundle, CommandError> {
        let folder = tempfile::tempdir().expect("a folder");
        for charm in ["web", "db", "other"] {
            std::fs::create_dir(folder.path().join(charm)).expect("a new folder");
        }
        std::fs::write(folder.path().join("title"), "Hello").expect("written");
        let file = folder.path().join("bundle.yaml");
        std::fs::write(&file, text).expect("written");
        let overlays = overlay.map(|overlay| {
            let file = folder.path().join("overlay.yaml");
            std::fs::write(&file, overlay).expect("written");
            file
        });
        let overlays: Vec<PathBuf> = overlays.into_iter().collect();
        read(&file, &overlays, |charm| Err(CommandError::new(format!("no charm at {charm:?}"))))
    }

    const PAIR: &str = "applications:\n  web: {charm: ./web, num_units: 2, to: db, options: {title: 'include-file://title'}}\n  \
                        db: {charm: ./db, num_units: 2, to: ['0', new]}\nmachines: {'0': }\nrelations:\n- [web:db, db]\n";

    #[test]
    fn a_bundle_is_read_with_its_files_and_placements() {
        let bundle = bundle(PAIR, None).expect("valid");
        assert_eq!(bundle.applications["web"].options["title"], "Hello");
        assert_eq!(bundle.order(), Ok(vec!["db".to_owned(), "web".to_owned()]));
        assert_eq!(bundle.placements("db"), [Placement::Machine("0".to_owned()), Placement::New]);
        let beside = Placement::Beside("db".to_owned(), None);
        assert_eq!(bundle.placements("web"), [beside.clone(), beside]);
        assert_eq!(bundle.pairs(), [["web:db", "db"]]);
    }

    #[test]
    fn an_overlay_merges_options_adds_relations_and_removes_applications() {
        let overlay = "applications:\n  web: {num_units: 3, options: {port: 80}}\n  db: null\n  other: {charm: ./other}\n\
                       relations:\n- [web, [other, 'other:admin']]\n";
        let bundle = bundle(&PAIR.replace(", to: db", ""), Some(overlay)).expect("valid");
        assert_eq!(bundle.applications["web"].num_units, 3);
        assert_eq!(bundle.applications["web"].options.len(), 2, "the option of the bundle stays");
        assert_eq!(
            bundle.pairs(),
            [["web", "other"], ["web", "other:admin"]],
            "the relation of db is removed"
        );
    }

    #[test]
    fn further_documents_of_the_file_are_overlays() {
        let text = format!("---\n{PAIR}---\napplications:\n  web: {{num_units: 1}}\n---\n");
        let bundle = bundle(&text, Some("applications:\n  web: {options: {port: 80}}\n")).expect("valid");
        assert_eq!(bundle.applications["web"].num_units, 1);
        assert_eq!((bundle.applications["web"].options.len(), bundle.pairs().len()), (2, 1));
    }

    #[test]
    fn a_bundle_that_contradicts_itself_is_refused() {
        for (text, part) in [
            ("applications: {}\n", "no applications"),
            ("applications: {web: {charm: ./none}}\n", "no charm at"),
            ("applications: {web: {charm: web}}\n", "no charm at"),
            // the folder in which the tests run has one of this name
            ("applications: {web: {charm: src}}\n", "no charm at"),
            ("applications: {web: {charm: ./web}}\nrelations: [[web, db]]\n", "no application \"db\""),
            (
                "applications: {web: {charm: ./web, num_units: 1, to: ['3']}}\n",
                "no machine or application \"3\"",
            ),
            ("applications: {web: {charm: ./web, num_units: 1, to: ['lxd:0']}}\n", "container"),
            ("applications: {web: {charm: ./web, num_units: many}}\n", "application web: "),
            ("applications: {web: {charm: ./web, num_unit: 3}}\n", "`num_unit`"),
            ("applications: {web: {charm: ./web, num_units: 4000000000}}\n", "at most 1000"),
            ("applications: {web: {charm: ./web, resources: {image: 3}}}\n", "application web: "),
            ("application: {web: {charm: ./web}}\n", "unknown key \"application\""),
            ("applications: {web: {charm: ./web}}\nsaas: {far: {url: x}}\n", "another model"),
            (
                "applications: {web: {charm: ./web, num_units: 1, to: db}, db: {charm: ./db, num_units: 1, to: web}}\n",
                "circle",
            ),
        ] {
            let message = bundle(text, None).expect_err(text).message;
            assert!(message.contains(part) && message.lines().count() == 1, "{message}");
        }
    }
}
