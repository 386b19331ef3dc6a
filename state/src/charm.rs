//! The declarations of a charm, as plain data, and the decisions that depend on it alone.
//!
//! The crate `charms` parses and checks the files of a charm; a [`Charm`] has passed these checks.
//! `options`: configuration values. `endpoints`: the endpoints by which two applications can be related.
//! `params`: the parameters that an action accepts.

pub mod endpoints;
pub mod options;
pub mod params;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use endpoints::{EndpointPair, IntegrateEnd, NoMatch};

/// The name and the interface of the endpoint that every charm provides without declaring it (spec/clients.md
/// 4.3).
pub const JUJU_INFO: &str = "juju-info";

/// The version of Juju whose charm contract Pintle implements (spec/clients.md, finding 6), and the value of
/// `JUJU_VERSION`; `pintle version` prints it with the operating system and the architecture. Charms switch features on
/// by it: it enables everything that they expect of Juju 3.6, and nothing that Juju 4 changed.
pub const JUJU_VERSION: &str = "3.6.14";

/// The most bytes of the name of a charm, and of an endpoint, an interface, storage or an action that it declares: with
/// `-storage-detaching` the name of a hook has 218 of the 255 bytes of a file name.
pub const DECLARED_NAME_BYTES_MAX: usize = 200;

/// The most endpoints of a charm: each record that installs it names them.
pub const ENDPOINTS_MAX: usize = 1_000;

/// One revision of a charm, as its files declare it (spec/clients.md 4.3 to 4.6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct Charm {
    /// The name of the charm.
    pub name: String,
    /// One line that describes the charm.
    pub summary: String,
    /// The description of the charm.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is a subordinate charm, whose units run on the machines of principal units.
    #[serde(skip_serializing_if = "is_false")]
    pub subordinate: bool,
    /// The declared endpoints of all three roles; the implicit `juju-info` is not among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, Endpoint>,
    /// The configuration options, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, ConfigOption>,
    /// The actions, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, Action>,
    /// The storage, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, Storage>,
    /// The resources, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Resource>,
    /// Network bindings beyond the endpoints.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub extra_bindings: BTreeSet<String>,
    /// The workload containers. A charm that declares any needs Kubernetes and is rejected on a machine.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub containers: BTreeSet<String>,
    /// The bases for which the charm was packed, preferred one first; empty if the charm does not declare any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<Base>,
    /// The first line of the file `version`, which the status shows as charm-version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The role of an endpoint in a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It provides the interface.
    Provider,
    /// It requires the interface.
    Requirer,
    /// It relates the units of one application to each other.
    Peer,
}

/// Which units of the other end a unit of a relation observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All of them.
    #[default]
    Global,
    /// Those in its own container only: a principal unit and its subordinates. Other principals on the same machine are other
    /// containers.
    Container,
}

/// A named point of a charm to which relations can be attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// The name of the endpoint.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The interface; both ends of a relation have the same one.
    pub interface: String,
    /// The scope that the charm declares. A relation has container scope if either end declares it.
    pub scope: Scope,
    /// The most relations that the endpoint accepts; none if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Whether the charm works without a relation on this endpoint. Informative.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// The type of a configuration option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OptionType {
    /// Text.
    #[default]
    String,
    /// A 64-bit signed integer.
    Int,
    /// A floating-point number.
    Float,
    /// True or false.
    Boolean,
    /// The URI of a secret: `secret:...`.
    Secret,
}

/// One option of config.yaml (spec/clients.md 4.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigOption {
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: OptionType,
    /// The default, a value of the option's type; none if the option has no value until a user sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The description of the option.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// One action of actions.yaml (spec/clients.md 4.5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct Action {
    /// The description of the action.
    pub description: String,
    /// Whether it may run while hooks and actions of other units of its machine run (`terms::run_lock`).
    #[serde(skip_serializing_if = "is_false")]
    pub parallel: bool,
    /// Its execution group: one action of a group runs at a time on a machine. Empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub execution_group: String,
    /// The JSON schema of the parameters, of type object, as the charm declares it: `properties`, `required`,
    /// `additionalProperties` and other keys.
    pub schema: Value,
}

/// How a charm uses a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StorageType {
    /// As a mounted filesystem.
    #[default]
    Filesystem,
    /// As a block device.
    Block,
}

impl StorageType {
    /// The word in metadata.yaml.
    pub fn as_str(self) -> &'static str {
        match self {
            StorageType::Filesystem => "filesystem",
            StorageType::Block => "block",
        }
    }
}

/// One storage of metadata.yaml (spec/clients.md 4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
pub struct Storage {
    /// The type of the storage.
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// The description of the storage.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is mounted read-only.
    #[serde(skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Where a filesystem is mounted; none if the agent chooses the location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The fewest instances of one unit.
    pub count_min: u32,
    /// The most instances of one unit; none if there is no bound.
    pub count_max: Option<u32>,
    /// The smallest size of one instance in MiB; 0 for any size.
    pub minimum_size_mib: u64,
    /// Whether its content may be lost with the unit's machine.
    #[serde(skip_serializing_if = "is_false")]
    pub transient: bool,
}

impl Default for Storage {
    /// Exactly one filesystem of any size.
    fn default() -> Storage {
        Storage {
            kind: StorageType::Filesystem,
            description: String::new(),
            read_only: false,
            location: None,
            count_min: 1,
            count_max: Some(1),
            minimum_size_mib: 0,
            transient: false,
        }
    }
}

/// The type of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ResourceType {
    /// A file.
    #[default]
    File,
    /// An OCI image.
    OciImage,
}

/// One resource of metadata.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// The name that `resource-get` gives to the file; empty for images.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// The description of the resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// What charmcraft writes as the architecture of a charm that runs on every one.
const ANY_ARCHITECTURE: &str = "all";

/// An operating system release for which a charm was packed: `ubuntu`, `24.04`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Base {
    /// The operating system: `ubuntu`.
    pub name: String,
    /// The release: `24.04`.
    pub channel: String,
    /// The architectures; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
}

impl Base {
    /// Parses `ubuntu@24.04`, as in `--base`; none if it is not of this form.
    pub fn parse(text: &str) -> Option<Base> {
        let (name, channel) = text.split_once('@')?;
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
        (is_word(name) && is_word(channel)).then(|| Base::new(name, channel))
    }

    /// Whether it has the form that [`Base::parse`] accepts, with at most 64 bytes in each word and 8 architectures. A
    /// machine reports its base, and every status shows it.
    pub fn is_printable(&self) -> bool {
        let is_word = |word: &String| {
            (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let words = [&self.name, &self.channel].into_iter().chain(&self.architectures);
        self.architectures.len() <= 8 && words.into_iter().all(is_word)
    }

    /// The base that the text of an `os-release` file names; none if it names no operating system.
    pub fn of_os_release(text: &str) -> Option<Base> {
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
            let value = value.trim_matches(['"', '\'']);
            (!value.is_empty()).then_some(value)
        };
        // a release in development has a code name only
        let release = value("VERSION_ID").or_else(|| value("VERSION_CODENAME")).unwrap_or_default();
        Some(Base::new(value("ID")?, release))
    }

    fn new(name: &str, channel: &str) -> Base {
        Base { name: name.to_owned(), channel: channel.to_owned(), architectures: Vec::new() }
    }

    /// The release without the risk of the channel: `24.04` of `24.04/stable`.
    pub fn release(&self) -> &str {
        self.channel.split('/').next().unwrap_or_default()
    }

    /// Whether both are the same release of the same operating system.
    pub fn is_same_release(&self, other: &Base) -> bool {
        self.name == other.name && self.release() == other.release()
    }
}

impl std::fmt::Display for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.release())
    }
}

impl Charm {
    /// The endpoint of this name, including the implicit `juju-info`.
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.endpoints.get(name).cloned().or_else(|| (name == JUJU_INFO).then(juju_info))
    }

    /// All names for which `network-get` can be called: endpoints, extra bindings and `juju-info`.
    pub fn bindings(&self) -> BTreeSet<String> {
        let names = self.endpoints.keys().chain(&self.extra_bindings).cloned();
        names.chain([JUJU_INFO.to_owned()]).collect()
    }

    /// The base to request for an application of the charm: that of the user, or else the first one that the charm
    /// declares and machines can have. None for any.
    pub fn requested_base<'a>(
        &'a self,
        chosen: Option<&'a Base>,
        can_have: impl Fn(&Base) -> bool,
    ) -> Option<&'a Base> {
        chosen.or_else(|| self.bases.iter().find(|base| can_have(base)))
    }

    /// Whether the charm was packed for this architecture, given by its name in Debian (`amd64`), or for any.
    pub fn runs_on_architecture(&self, name: &str) -> bool {
        let fits = |base: &Base| {
            let names = &base.architectures;
            names.is_empty() || names.iter().any(|packed| packed == name || packed == ANY_ARCHITECTURE)
        };
        self.bases.is_empty() || self.bases.iter().any(fits)
    }

    /// Whether the charm declares bases, and this one is not among them.
    pub fn is_for_other_bases_than(&self, base: &Base) -> bool {
        !self.bases.is_empty() && !self.bases.iter().any(|own| own.is_same_release(base))
    }

    /// The preferred base of the charm; none if the charm does not declare any.
    pub fn base(&self) -> Option<&Base> {
        self.bases.first()
    }
}

/// The implicit endpoint of every charm.
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
    fn a_base_is_what_os_release_names() {
        let of = |text: &str| Base::of_os_release(text).map(|base| base.to_string());
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(of(debian).as_deref(), Some("debian@12"));
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian\nVERSION_ID='22.04'").as_deref(), Some("ubuntu@22.04"));
        assert_eq!(of("ID=debian\nVERSION_CODENAME=trixie\n").as_deref(), Some("debian@trixie"));
        assert_eq!(of("NAME=unknown\n"), None);
        let base = Base::parse("ubuntu@24.04/stable").expect("a base");
        assert_eq!((base.channel.as_str(), base.to_string().as_str()), ("24.04/stable", "ubuntu@24.04"));
        assert!(base.is_same_release(&Base::parse("ubuntu@24.04").expect("a base")));
        assert!(!base.is_same_release(&Base::parse("ubuntu@22.04").expect("a base")));
        for invalid in ["ubuntu", "@24.04", "ubuntu@", "ubuntu @24.04"] {
            assert_eq!(Base::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_charm_runs_on_the_architectures_and_bases_that_it_declares() {
        let base = |text: &str, architectures: &[&str]| Base {
            architectures: architectures.iter().map(|name| (*name).to_owned()).collect(),
            ..Base::parse(text).expect("a base")
        };
        let of = |bases: Vec<Base>| Charm { bases, ..Charm::default() };
        let (jammy, noble) = (base("ubuntu@22.04", &["arm64"]), base("ubuntu@24.04", &["arm64", "s390x"]));
        let other = of(vec![jammy.clone(), noble.clone()]);
        assert!(!other.runs_on_architecture("amd64") && other.runs_on_architecture("s390x"));
        for any in [vec![], vec![jammy.clone(), base("ubuntu@24.04", &[])], vec![base("debian@12", &["all"])]]
        {
            assert!(of(any.clone()).runs_on_architecture("amd64"), "{any:?}");
        }
        assert!(!other.is_for_other_bases_than(&base("ubuntu@24.04/stable", &[])));
        assert!(other.is_for_other_bases_than(&base("debian@12", &[])));
        assert!(!of(Vec::new()).is_for_other_bases_than(&jammy));
    }

    #[test]
    fn the_chosen_base_is_requested_or_else_the_first_that_machines_can_have() {
        let base = |text: &str| Base::parse(text).expect("a base");
        let charm = Charm { bases: vec![base("ubuntu@20.04"), base("ubuntu@24.04")], ..Charm::default() };
        let chosen = base("debian@12");
        let has = |wanted: &Base| *wanted == base("ubuntu@24.04");
        assert_eq!(charm.requested_base(Some(&chosen), has), Some(&chosen));
        assert_eq!(charm.requested_base(None, has), Some(&charm.bases[1]));
        assert_eq!(charm.requested_base(None, |_| false), None);
    }

    #[test]
    fn a_stored_charm_is_read_back_unchanged() {
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
