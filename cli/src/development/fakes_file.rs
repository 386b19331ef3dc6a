//! The file of `pintle dev --fakes`: which fake applications a charm is related to, and what their units publish.
//!
//! Reads the YAML file, and matches its units with those that exist. A unit number is never used again, so a unit of the
//! file that was removed and is added again gets another number in the model.

use crate::command_error::CommandError;
use charms::yaml;
use serde::Deserialize;
use serde_json::Value;
use state::charm::{Charm, Endpoint, Role, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The name of the generated charms.
const FAKE_CHARM: &str = "pintle-fake";

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FakesFile {
    #[serde(default)]
    relations: Vec<RelationEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationEntry {
    endpoint: String,
    remote: String,
    #[serde(default)]
    app: BTreeMap<String, Value>,
    #[serde(default)]
    units: BTreeMap<u32, Option<BTreeMap<String, Value>>>,
}

/// A fake application that a charm is related to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeApplication {
    /// Its name.
    pub name: String,
    /// The endpoint of the charm under development.
    pub endpoint: Endpoint,
    /// What the application publishes.
    pub application_settings: BTreeMap<String, String>,
    /// What its units publish, by the numbers of the file.
    pub units: BTreeMap<u32, BTreeMap<String, String>>,
}

/// The fake applications of a file, for this charm.
///
/// # Errors
/// If the file cannot be read, or names an endpoint that the charm does not have or that cannot be related to a fake
/// application.
pub fn read(path: &Path, charm: &Charm) -> Result<Vec<FakeApplication>, CommandError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::new(format!("cannot read the fake applications of {shown}: {error}"))
    })?;
    parse(&text, charm)
        .map_err(|text| CommandError::new(format!("cannot use the fake applications of {shown}: {text}")))
}

fn parse(text: &str, charm: &Charm) -> Result<Vec<FakeApplication>, String> {
    let file: Option<FakesFile> = yaml::from_str(text).map_err(|error| error.to_string())?;
    let (mut names, mut applications) = (BTreeSet::new(), Vec::new());
    for RelationEntry { endpoint, remote, app, units } in file.unwrap_or_default().relations {
        let found = charm.endpoints.get(&endpoint);
        let found = found.ok_or_else(|| format!("charm {} has no endpoint {endpoint:?}", charm.name))?;
        if found.role == Role::Peer {
            return Err(format!(
                "endpoint {endpoint:?} is a peer relation: add units of {} itself",
                charm.name
            ));
        }
        if found.scope == Scope::Container {
            let text = format!("endpoint {endpoint:?} has container scope, which needs units with agents");
            return Err(format!("{text}: deploy a charm and integrate it"));
        }
        if !names.insert(remote.clone()) {
            return Err(format!("application {remote:?} is named twice"));
        }
        let units = units.into_iter().map(|(number, settings)| {
            let mut all = addresses(number);
            all.extend(to_text(settings.unwrap_or_default()));
            (number, all)
        });
        applications.push(FakeApplication {
            name: remote,
            endpoint: found.clone(),
            application_settings: to_text(app),
            units: units.collect(),
        });
    }
    Ok(applications)
}

/// Settings as a charm publishes them: texts stay, anything else is JSON. A key without a value is absent.
fn to_text(values: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(value.to_string()),
    };
    values.into_iter().filter_map(|(key, value)| Some((key, text(value)?))).collect()
}

/// What every unit publishes when it enters a relation: an address of the network for documentation (RFC 5737).
fn addresses(number: u32) -> BTreeMap<String, String> {
    let address = format!("192.0.2.{}", number % 254 + 1);
    BTreeMap::from([
        ("egress-subnets".to_owned(), format!("{address}/32")),
        ("ingress-address".to_owned(), address.clone()),
        ("private-address".to_owned(), address),
    ])
}

impl FakeApplication {
    /// The `metadata.yaml` of a charm with the endpoint at the other end.
    pub fn metadata(&self) -> String {
        let role = match self.endpoint.role {
            Role::Provider => "requires",
            Role::Requirer | Role::Peer => "provides",
        };
        let Endpoint { name, interface, .. } = &self.endpoint;
        // JSON is valid YAML
        let about = "A fake application of pintle dev, whose units have no agents";
        let mut metadata = serde_json::json!({ "name": FAKE_CHARM, "summary": about, "description": about });
        metadata[role] = serde_json::json!({ name.as_str(): { "interface": interface } });
        metadata.to_string()
    }
}

/// How the units of a file correspond to those of the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnitMatch {
    /// The numbers in the model, by those of the file.
    pub matched: BTreeMap<u32, u32>,
    /// The numbers of the file for which units are added.
    pub added: Vec<u32>,
    /// The numbers in the model of units that are removed.
    pub removed: Vec<u32>,
}

/// Matches the units of a file with those that exist: first those with the same number, then the others in order.
pub fn match_units(wanted: &BTreeSet<u32>, existing: &BTreeSet<u32>) -> UnitMatch {
    let mut matched: BTreeMap<u32, u32> =
        wanted.intersection(existing).map(|number| (*number, *number)).collect();
    let mut free = existing.difference(wanted).copied();
    let mut added = Vec::new();
    for number in wanted.difference(existing) {
        match free.next() {
            Some(unit) => drop(matched.insert(*number, unit)),
            None => added.push(*number),
        }
    }
    UnitMatch { matched, added, removed: free.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charm() -> Charm {
        let endpoint = |name: &str, role, scope| {
            let endpoint = Endpoint {
                name: name.to_owned(),
                role,
                interface: "sql".to_owned(),
                scope,
                limit: None,
                optional: false,
            };
            (name.to_owned(), endpoint)
        };
        let endpoints = [
            endpoint("db", Role::Requirer, Scope::Global),
            endpoint("cluster", Role::Peer, Scope::Global),
            endpoint("host", Role::Requirer, Scope::Container),
        ];
        Charm { name: "web".to_owned(), endpoints: endpoints.into(), ..Charm::default() }
    }

    #[test]
    fn settings_are_texts_and_every_unit_has_an_address() {
        let text = "relations:\n- endpoint: db\n  remote: postgres\n  app: {version: 14, nodes: [a]}\n  \
                    units:\n    0: {host: 10.0.0.1, private-address: 10.0.0.1, none: null}\n    1:\n";
        let fake = parse(text, &charm()).expect("a valid file").remove(0);
        let settings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(fake.application_settings, settings(&[("version", "14"), ("nodes", "[\"a\"]")]));
        let first = settings(&[
            ("host", "10.0.0.1"),
            ("private-address", "10.0.0.1"),
            ("ingress-address", "192.0.2.1"),
            ("egress-subnets", "192.0.2.1/32"),
        ]);
        assert_eq!(fake.units, BTreeMap::from([(0, first), (1, addresses(1))]));
        let metadata = yaml::value(&fake.metadata()).expect("YAML");
        assert_eq!(metadata["provides"]["db"]["interface"], "sql");
        assert_eq!(parse("", &charm()), Ok(Vec::new()));
    }

    #[test]
    fn an_endpoint_that_cannot_be_related_to_a_fake_application_is_refused() {
        for endpoint in ["none", "cluster", "host"] {
            parse(&format!("relations: [{{endpoint: {endpoint}, remote: a}}]"), &charm())
                .expect_err(endpoint);
        }
        let entry = "{endpoint: db, remote: a}";
        parse(&format!("relations: [{entry}, {entry}]"), &charm()).expect_err("named twice");
        parse("relation: []", &charm()).expect_err("a misspelt key");
    }

    #[test]
    fn units_keep_their_numbers_and_a_number_that_is_used_up_gets_another() {
        let set = |numbers: &[u32]| numbers.iter().copied().collect::<BTreeSet<u32>>();
        let of = |wanted: &[u32], existing: &[u32]| match_units(&set(wanted), &set(existing));
        assert_eq!(of(&[0, 1], &[]), UnitMatch { added: vec![0, 1], ..UnitMatch::default() });
        let matched = BTreeMap::from([(1, 1)]);
        assert_eq!(
            of(&[1], &[0, 1]),
            UnitMatch { matched: matched.clone(), removed: vec![0], added: vec![] }
        );
        assert_eq!(of(&[0, 1], &[1]), UnitMatch { matched, added: vec![0], removed: vec![] });
        let matched = BTreeMap::from([(0, 2), (1, 1)]);
        assert_eq!(of(&[0, 1], &[1, 2]), UnitMatch { matched, added: vec![], removed: vec![] });
    }
}
