//! Reads metadata.yaml: the charm's name, endpoints, storage and resources (spec/clients.md 4.3).
//!
//! Every problem is reported with its key; reading continues after a problem. Called by `declaration`.

use crate::problem::{Checker, join};
use serde_json::{Map, Value};
use state::charm::{
    Charm, DECLARED_NAME_BYTES_MAX, ENDPOINTS_MAX, Endpoint, Resource, ResourceType, Role, Scope, Storage,
    StorageType,
};
use state::terms::storage::parse_size_mib;

/// Reads the parsed file into `charm` and reports problems to `checker`.
pub fn read(file: &Value, charm: &mut Charm, checker: &mut Checker) {
    if !file.is_object() {
        return checker.add("", "expected a map of keys");
    }
    let root = checker.map("", Some(file));
    read_identity(&root, charm, checker);
    for (section, role) in [("provides", Role::Provider), ("requires", Role::Requirer), ("peers", Role::Peer)]
    {
        for (name, value) in checker.map(section, root.get(section)) {
            let place = join(section, &name);
            check_endpoint_name(&name, &charm.name, &place, checker);
            let endpoint = read_endpoint(&name, role, &value, &place, checker);
            if role != Role::Requirer && is_reserved(&endpoint.interface, &charm.name) {
                checker.add(&place, format!("interface {:?} is reserved", endpoint.interface));
            }
            if charm.endpoints.insert(name.clone(), endpoint).is_some() {
                checker.add(&place, format!("relation {name:?} is declared twice"));
            }
        }
    }
    if charm.endpoints.len() > ENDPOINTS_MAX {
        checker.add("", format!("{} relations are declared, at most {ENDPOINTS_MAX}", charm.endpoints.len()));
    }
    let attaches_to_principal = |e: &Endpoint| e.role == Role::Requirer && e.scope == Scope::Container;
    if charm.subordinate && !charm.endpoints.values().any(attaches_to_principal) {
        checker.add("subordinate", "a subordinate must require a relation with scope: container");
    }
    for (name, value) in checker.map("storage", root.get("storage")) {
        check_length(&name, &join("storage", &name), checker);
        let storage = read_storage(&value, &join("storage", &name), checker);
        charm.storage.insert(name, storage);
    }
    for (name, value) in checker.map("resources", root.get("resources")) {
        if !is_resource_name(&name) {
            let text = format!(
                "{name:?} is not a valid name: use letters, digits, inner hyphens, dots and underscores"
            );
            checker.add(&join("resources", &name), text);
        }
        let resource = read_resource(&value, &join("resources", &name), checker);
        charm.resources.insert(name, resource);
    }
    for (name, value) in checker.map("extra-bindings", root.get("extra-bindings")) {
        let place = join("extra-bindings", &name);
        if !value.is_null() {
            checker.add(&place, "expected no value");
        }
        if charm.endpoints.contains_key(&name) {
            checker.add(&place, "repeats the name of a relation");
        }
        charm.extra_bindings.insert(name);
    }
    let containers = checker.map("containers", root.get("containers"));
    charm.containers = containers.keys().cloned().collect();
    if !charm.containers.is_empty() {
        checker.add("containers", "the charm needs Kubernetes containers, but Pintle runs units on machines");
    }
    let series = root.get("series").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !series.is_empty() && series.iter().all(|name| name == "kubernetes") {
        checker.add("series", "the charm is for Kubernetes, but Pintle runs units on machines");
    }
}

fn read_identity(root: &Map<String, Value>, charm: &mut Charm, checker: &mut Checker) {
    charm.name = checker.text("name", root.get("name")).unwrap_or_default();
    if !root.contains_key("name") {
        checker.add("name", "is missing");
    } else if !charm.name.is_empty() && !state::terms::names::is_application_name(&charm.name) {
        let rule = "use lower-case letters, digits and single hyphens, beginning with a letter";
        checker.add("name", format!("invalid charm name {:?}: {rule}", charm.name));
    } else if charm.name.is_empty() && root["name"].is_string() {
        checker.add("name", "is empty");
    }
    check_length(&charm.name, "name", checker);
    for (key, field) in [("summary", &mut charm.summary), ("description", &mut charm.description)] {
        *field = checker.text(key, root.get(key)).unwrap_or_default();
        if !root.contains_key(key) {
            checker.add(key, "is missing (it may be empty)");
        }
    }
    charm.subordinate = checker.bool("subordinate", root.get("subordinate"));
}

/// Refuses a name that no agent can report: see [`DECLARED_NAME_BYTES_MAX`].
fn check_length(name: &str, place: &str, checker: &mut Checker) {
    if name.len() > DECLARED_NAME_BYTES_MAX {
        let text = format!("a name of {} bytes, at most {DECLARED_NAME_BYTES_MAX}", name.len());
        checker.add(place, text);
    }
}

fn check_endpoint_name(name: &str, charm: &str, place: &str, checker: &mut Checker) {
    check_length(name, place, checker);
    let begins_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    // The name becomes part of hook names, and so of paths.
    if !begins_with_letter || !name.bytes().all(is_allowed) {
        let rule = "use lower-case letters, digits, hyphens and underscores, beginning with a letter";
        checker.add(place, format!("invalid relation name {name:?}: {rule}"));
    } else if is_reserved(name, charm) && !place.starts_with("requires.") {
        checker.add(place, format!("relation name {name:?} is reserved"));
    }
}

/// Whether the name belongs to Juju. Only charms that are part of Juju itself may use such a name.
fn is_reserved(name: &str, charm: &str) -> bool {
    (name == "juju" || name.starts_with("juju-")) && !charm.starts_with("juju-")
}

fn read_endpoint(name: &str, role: Role, value: &Value, place: &str, checker: &mut Checker) -> Endpoint {
    let short = match value {
        Value::String(interface) => {
            Some(Map::from_iter([("interface".to_owned(), Value::from(interface.as_str()))]))
        }
        _ => None,
    };
    let map = short.unwrap_or_else(|| checker.map(place, Some(value)));
    let interface = checker.text(&join(place, "interface"), map.get("interface"));
    check_length(interface.as_deref().unwrap_or_default(), &join(place, "interface"), checker);
    if map.get("interface").is_none_or(Value::is_null) {
        checker.add(place, "interface is missing");
    }
    let scopes = [("global", Scope::Global), ("container", Scope::Container)];
    let scope = match map.get("scope") {
        None | Some(Value::Null) => Scope::Global,
        declared => checker.choice(&join(place, "scope"), declared, &scopes).unwrap_or_default(),
    };
    Endpoint {
        name: name.to_owned(),
        role,
        interface: interface.unwrap_or_default(),
        scope,
        limit: checker.count(&join(place, "limit"), map.get("limit")),
        optional: checker.bool(&join(place, "optional"), map.get("optional")),
    }
}

fn read_storage(value: &Value, place: &str, checker: &mut Checker) -> Storage {
    let map = checker.map(place, Some(value));
    let types = [("filesystem", StorageType::Filesystem), ("block", StorageType::Block)];
    let kind = checker.choice(&join(place, "type"), map.get("type"), &types).unwrap_or_default();
    let location = checker.text(&join(place, "location"), map.get("location"));
    if location.is_some() && kind == StorageType::Block {
        checker.add(&join(place, "location"), "applies to filesystem storage only");
    }
    if checker.bool(&join(place, "shared"), map.get("shared")) {
        checker.add(&join(place, "shared"), "shared storage is not supported");
    }
    let mut storage = Storage {
        kind,
        description: checker.text(&join(place, "description"), map.get("description")).unwrap_or_default(),
        read_only: checker.bool(&join(place, "read-only"), map.get("read-only")),
        location,
        ..Storage::default()
    };
    let multiple = checker.map(&join(place, "multiple"), map.get("multiple"));
    if let Some(range) = multiple.get("range") {
        match parse_range(&scalar_text(range)) {
            Some((min, max)) => (storage.count_min, storage.count_max) = (min, max),
            None => checker.add(
                &join(place, "multiple.range"),
                format!("expected a count like 2, 1-3, 1- or 1+, got {}", scalar_text(range)),
            ),
        }
    }
    if let Some(size) = map.get("minimum-size") {
        match parse_size_mib(&scalar_text(size), Some('M')) {
            Some(size) => storage.minimum_size_mib = size,
            None => checker.add(
                &join(place, "minimum-size"),
                format!("expected a size like 500M or 1G, got {}", scalar_text(size)),
            ),
        }
    }
    for property in map.get("properties").and_then(Value::as_array).into_iter().flatten() {
        match property.as_str() {
            Some("transient") => storage.transient = true,
            _ => {
                checker.add(&join(place, "properties"), format!("unknown property {}", scalar_text(property)))
            }
        }
    }
    storage
}

/// The text of a scalar: ranges and sizes may be YAML numbers.
fn scalar_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses `m`, `m-n`, `m-` or `m+` into minimum and maximum. No maximum means that the count is unbounded.
fn parse_range(text: &str) -> Option<(u32, Option<u32>)> {
    if let Some(least) = text.strip_suffix(['-', '+']) {
        return Some((least.parse().ok()?, None));
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most): (u32, u32) = (least.parse().ok()?, most.parse().ok()?);
    (least <= most && most > 0).then_some((least, Some(most)))
}

/// Whether a resource may have this name, which is that of a folder on the machine.
fn is_resource_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    name.chars().all(is_inner)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn read_resource(value: &Value, place: &str, checker: &mut Checker) -> Resource {
    let map = checker.map(place, Some(value));
    let types = [("file", ResourceType::File), ("oci-image", ResourceType::OciImage)];
    // Older charms omit the type; it was always file.
    let kind = match map.get("type") {
        None => Some(ResourceType::File),
        declared => checker.choice(&join(place, "type"), declared, &types),
    };
    let filename = checker.text(&join(place, "filename"), map.get("filename")).unwrap_or_default();
    if kind == Some(ResourceType::File) {
        if filename.is_empty() {
            checker.add(place, "filename is missing (required for a file resource)");
        } else if filename.contains('/') || filename.starts_with('.') && filename.len() <= 2 {
            checker.add(&join(place, "filename"), format!("{filename:?} is a path, not a file name"));
        }
    }
    let description = checker.text(&join(place, "description"), map.get("description")).unwrap_or_default();
    Resource { kind: kind.unwrap_or_default(), filename, description }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Charm, Vec<String>) {
        let (mut charm, mut checker) = (Charm::default(), Checker::new("metadata.yaml"));
        read(&crate::yaml::from_str(text).expect("yaml"), &mut charm, &mut checker);
        (charm, checker.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_endpoint_may_be_declared_as_a_string_or_as_a_map() {
        let (charm, problems) = read_text(
            "name: web\nsummary: ''\ndescription: ''\nsubordinate: yes\nprovides:\n  site: http\nrequires:\n  \
             db: {interface: sql, limit: 1, optional: true}\n  host: {interface: juju-info, scope: container}\n\
             peers:\n  ring: {interface: gossip}\nmaintainer: me\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let db = &charm.endpoints["db"];
        assert_eq!(
            (db.role, db.interface.as_str(), db.limit, db.optional),
            (Role::Requirer, "sql", Some(1), true)
        );
        assert_eq!(charm.endpoints["host"].scope, Scope::Container);
        assert_eq!(charm.endpoints["site"].interface, "http");
        assert!(charm.subordinate);
    }

    #[test]
    fn every_problem_is_reported_with_its_key() {
        let (_, problems) = read_text(
            "name: Bad_Name\nsummary: 1\nsubordinate: true\nprovides:\n  db: {scope: machine}\n  juju-x: http\n  \
             s: juju-info\nrequires:\n  db: sql\n  '../x': sql\nextra-bindings:\n  s: null\n",
        );
        for expected in [
            "metadata.yaml: name: invalid charm name \"Bad_Name\": use lower-case letters",
            "metadata.yaml: summary: expected a string, got 1",
            "metadata.yaml: description: is missing",
            "metadata.yaml: provides.db: interface is missing",
            "metadata.yaml: provides.db.scope: expected global or container, got machine",
            "metadata.yaml: provides.juju-x: relation name \"juju-x\" is reserved",
            "metadata.yaml: provides.s: interface \"juju-info\" is reserved",
            "metadata.yaml: requires.db: relation \"db\" is declared twice",
            "metadata.yaml: requires.../x: invalid relation name \"../x\": use lower-case letters",
            "metadata.yaml: subordinate: a subordinate must require a relation with scope: container",
            "metadata.yaml: extra-bindings.s: repeats the name of a relation",
        ] {
            assert!(
                problems.iter().any(|problem| problem.starts_with(expected)),
                "{expected}\n{problems:#?}"
            );
        }
        assert_eq!(problems.len(), 11, "{problems:#?}");
    }

    #[test]
    fn names_and_lists_that_no_agent_could_report_are_refused() {
        let name = |bytes: usize| "n".repeat(bytes);
        let text = |long: &str, endpoints: usize| {
            let endpoints: String = (0..endpoints).map(|n| format!("  e{n}: sql\n")).collect();
            format!(
                "name: {long}\nsummary: ''\ndescription: ''\nprovides:\n  {long}: {long}\n{endpoints}\
                 storage:\n  {long}: {{type: filesystem}}\n"
            )
        };
        let (_, problems) = read_text(&text(&name(DECLARED_NAME_BYTES_MAX), ENDPOINTS_MAX - 1));
        assert_eq!(problems, Vec::<String>::new());
        let (_, problems) = read_text(&text(&name(DECLARED_NAME_BYTES_MAX + 1), ENDPOINTS_MAX));
        assert_eq!(problems.len(), 5, "{problems:#?}");
    }

    #[test]
    fn storage_ranges_and_sizes_are_parsed() {
        for (text, range) in [
            ("2", (2, Some(2))),
            ("1-3", (1, Some(3))),
            ("0-", (0, None)),
            ("1+", (1, None)),
            ("0-1", (0, Some(1))),
        ] {
            assert_eq!(parse_range(text), Some(range), "{text}");
        }
        for text in ["", "-", "x", "3-1", "0", "1-2-3", "-1"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
        for (text, mib) in
            [("500", 500), ("500M", 500), ("1G", 1024), ("1.5G", 1536), ("1T", 1 << 20), ("1GiB", 1024)]
        {
            assert_eq!(parse_size_mib(text, Some('M')), Some(mib), "{text}");
        }
        for text in ["", "G", "1K", "1GG", "-1G", "nan", "1 G", "1e3", "9999999999Y"] {
            assert_eq!(parse_size_mib(text, Some('M')), None, "{text}");
        }
    }

    #[test]
    fn invalid_storage_and_resources_are_reported() {
        let (charm, problems) = read_text(
            "name: a\nsummary: ''\ndescription: ''\nstorage:\n  data: {type: filesystem, location: /srv, \
             multiple: {range: 1-2}, minimum-size: 1G}\n  raw: {type: tape}\n  mine: {type: block, shared: false}\n  ours: {type: block, shared: true}\n  disk: {type: block, location: /x, \
             multiple: {range: many}}\nresources:\n  web: {type: file}\n  image: {type: oci-image}\n  ../up: {filename: a}\n",
        );
        let data = &charm.storage["data"];
        assert_eq!((data.count_min, data.count_max, data.minimum_size_mib), (1, Some(2), 1024));
        let places = [
            "storage.disk.location",
            "storage.disk.multiple.range",
            "storage.ours.shared",
            "storage.raw.type",
            "resources.../up",
            "resources.web",
        ];
        let is_at = |(line, place): (&String, &str)| line.starts_with(&format!("metadata.yaml: {place}: "));
        assert!(problems.iter().zip(places).all(is_at), "{problems:?}");
        assert_eq!(problems.len(), places.len());
    }

    #[test]
    fn a_kubernetes_charm_is_refused_with_its_reason() {
        for what in ["containers: {app: {}}", "series: [kubernetes]\ndeployment: {type: stateful}"] {
            let (_, problems) = read_text(&format!("name: a\nsummary: ''\ndescription: ''\n{what}\n"));
            assert_eq!(problems.len(), 1, "{what}: {problems:?}");
            assert!(problems[0].contains("Kubernetes"), "{problems:?}");
        }
        let (_, problems) = read_text("name: a\nsummary: ''\ndescription: ''\nseries: [jammy, kubernetes]\n");
        assert_eq!(problems, [""; 0]);
    }
}
