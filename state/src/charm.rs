//! What a charm declares, from its parsed metadata: plain data, and the questions the controller asks of it.
//! Reading and checking the files is the crate `charms`; here everything is already known to be well formed.
//!
//! `options`: configuration values. `endpoints`: which endpoints two charms can be related by. `params`: what an
//! action accepts.

pub mod endpoints;
pub mod options;
pub mod params;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use endpoints::{EndpointPair, NoMatch, Side};

/// The endpoint every charm provides without declaring it, and its interface (spec/clients.md 4.3).
pub const JUJU_INFO: &str = "juju-info";

/// One revision of a charm, as its files declare it (spec/clients.md 4.3 to 4.6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Charm {
    pub name: String,
    pub summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its units live on the machines of other applications' units.
    #[serde(skip_serializing_if = "is_false")]
    pub subordinate: bool,
    /// The declared endpoints of all three roles; the implicit `juju-info` is not among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, Endpoint>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, ConfigOption>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, Action>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, Storage>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Resource>,
    /// Network bindings beyond the endpoints.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub extra_bindings: BTreeSet<String>,
    /// Workload containers: such a charm needs Kubernetes and is refused on a machine.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub containers: BTreeSet<String>,
    /// What the charm was packed for, best first; empty when it does not say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<Base>,
    /// First line of the file `version`, shown as charm-version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Which end of a relation an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Provider,
    Requirer,
    Peer,
}

/// Whom a unit meets over a relation: everyone of the other side, or only those in its own container (the machine
/// of a principal and its subordinates).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Global,
    Container,
}

/// One place where a relation can be attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub name: String,
    pub role: Role,
    pub interface: String,
    pub scope: Scope,
    /// Most relations it takes; none = no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The charm works without it. Informative.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// The type of a configuration option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptionType {
    #[default]
    String,
    Int,
    Float,
    Boolean,
    /// The URI of a secret.
    Secret,
}

/// One option of config.yaml (spec/clients.md 4.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigOption {
    #[serde(rename = "type")]
    pub kind: OptionType,
    /// A string, integer, float or boolean of the option's type; none = no value until somebody sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// One action of actions.yaml (spec/clients.md 4.5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Action {
    pub description: String,
    /// May run beside other actions and hooks of its unit.
    #[serde(skip_serializing_if = "is_false")]
    pub parallel: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub execution_group: String,
    /// A JSON schema of type object, as given: `properties`, `required`, `additionalProperties` and what else the
    /// charm wrote.
    pub schema: Value,
}

/// What a storage is to the charm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageType {
    #[default]
    Filesystem,
    Block,
}

/// One storage of metadata.yaml (spec/clients.md 4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Storage {
    #[serde(rename = "type")]
    pub kind: StorageType,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "is_false")]
    pub shared: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Where a filesystem is mounted; none = the agent chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Fewest and most instances of one unit; most none = no bound.
    pub count_min: u32,
    pub count_max: Option<u32>,
    /// Smallest size of one instance in MiB; 0 = any.
    pub minimum_size_mib: u64,
    /// Its content need not survive the unit's machine.
    #[serde(skip_serializing_if = "is_false")]
    pub transient: bool,
}

impl Default for Storage {
    /// Exactly one filesystem of any size.
    fn default() -> Storage {
        Storage {
            kind: StorageType::Filesystem,
            description: String::new(),
            shared: false,
            read_only: false,
            location: None,
            count_min: 1,
            count_max: Some(1),
            minimum_size_mib: 0,
            transient: false,
        }
    }
}

/// What kind of thing a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceType {
    #[default]
    File,
    OciImage,
}

/// One resource of metadata.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// The name `resource-get` gives the file; empty for images.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// An operating system release a charm was packed for: `ubuntu`, `24.04`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub name: String,
    pub channel: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
}

impl Charm {
    /// The endpoint of this name, `juju-info` included.
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.endpoints.get(name).cloned().or_else(|| (name == JUJU_INFO).then(juju_info))
    }

    /// All names a network may be asked for (network-get): endpoints, extra bindings and `juju-info`.
    pub fn bindings(&self) -> BTreeSet<String> {
        let names = self.endpoints.keys().chain(&self.extra_bindings).cloned();
        names.chain([JUJU_INFO.to_owned()]).collect()
    }

    /// The first base the charm was packed for; none when it does not say, then the host's is used.
    pub fn base(&self) -> Option<&Base> {
        self.bases.first()
    }
}

/// The endpoint every charm provides.
fn juju_info() -> Endpoint {
    Endpoint {
        name: JUJU_INFO.to_owned(),
        role: Role::Provider,
        interface: JUJU_INFO.to_owned(),
        scope: Scope::Global,
        limit: None,
        optional: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_charm_provides_juju_info() {
        let charm = Charm { extra_bindings: ["admin".to_owned()].into(), ..Charm::default() };
        let endpoint = charm.endpoint("juju-info").expect("implicit");
        assert_eq!((endpoint.role, endpoint.interface.as_str()), (Role::Provider, "juju-info"));
        assert_eq!(charm.endpoint("db"), None);
        assert_eq!(charm.bindings(), BTreeSet::from(["admin".to_owned(), "juju-info".to_owned()]));
    }

    #[test]
    fn a_charm_survives_being_stored() {
        let charm = Charm {
            name: "web".to_owned(),
            storage: BTreeMap::from([("data".to_owned(), Storage { count_max: None, ..Storage::default() })]),
            config: BTreeMap::from([(
                "port".to_owned(),
                ConfigOption { kind: OptionType::Int, default: Some(80.into()), description: String::new() },
            )]),
            ..Charm::default()
        };
        let text = serde_json::to_string(&charm).expect("plain data");
        assert_eq!(serde_json::from_str::<Charm>(&text).expect("what was written"), charm);
    }
}
