//! Every document there is: its key and its shape. Keys begin with the model's uuid; what belongs to no model lies
//! under the nil uuid. Life, config, settings and status are separate keys (design 5).

use super::draft::Key;
use crate::charm::{Charm, Role, Scope};
use crate::life::Life;
use crate::names::{RelationNumber, UnitName, Uuid};
use crate::settings::Bag;
use crate::unit::local::Local;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// One model's keys. `Model(Uuid(0))` holds what belongs to no model: models, tokens, charms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Model(pub Uuid);

/// Where documents of no model lie.
pub const GLOBAL: Model = Model(Uuid(0));

/// Most keys fit: a kind and three uuids, 37 bytes each.
const KEY_LENGTH: usize = 128;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDoc {
    pub name: String,
    pub created_ms: i64,
}

/// How far a model is on its way out (see `destruction`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestructionDoc {
    pub since_ms: i64,
    /// When force was asked for; none = it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_ms: Option<i64>,
    /// With force: nobody is waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_wait: bool,
    /// The last application or machine that was destroyed with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDoc {
    /// What people see: `0`.
    pub name: String,
    /// Address of the machine's units: 127.0.n.1 for the local provider.
    pub address: String,
    pub created_ms: i64,
    /// A person brings it; no provider makes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    /// Its instance stays when it goes (`remove-machine --keep-instance`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Of one that is Dead and kept: its agent has taken itself away, or is waited for no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// What runs as a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceDoc {
    /// `local`, `nspawn` or `manual`.
    pub provider: String,
    /// Recorded before the instance is made, so that it is made once.
    pub nonce: Uuid,
    /// The provider's name for it; none until it is there.
    pub id: Option<String>,
}

/// What keeps a machine's provider from making or taking it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TroubleDoc {
    pub message: String,
    /// In a row.
    pub failures: u32,
    /// When the first of these was.
    pub since_ms: i64,
    /// When the last one was.
    pub last_ms: i64,
    /// When it is tried again.
    pub retry_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationDoc {
    pub name: String,
    pub subordinate: bool,
    pub created_ms: i64,
}

/// The charm an application runs. A separate key, so that a refresh touches nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CharmDoc {
    pub sha256: String,
    pub name: String,
    /// `local:web-3`.
    pub url: String,
    pub revision: u32,
    /// `--force-units`: replace the charm even while a hook is in error (spec A.6).
    pub forced: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitDoc {
    pub name: UnitName,
    pub application: Uuid,
    pub machine: Uuid,
    pub principal: Option<Uuid>,
    /// Of a subordinate: that of the relation it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    pub created_ms: i64,
}

/// A status a charm or an agent set. `number` orders the sends of one unit, so that a late one never wins
/// (design 4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusDoc {
    pub status: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
    pub since_ms: i64,
    pub number: (u64, u32),
}

/// Who speaks for a unit: raised by compare-and-set at every attach (design 6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionDoc {
    pub epoch: u64,
    pub nonce: Uuid,
    /// Nonces of agents that came with an empty folder, newest last: one that comes again late is no newcomer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newcomers: Vec<Uuid>,
    /// None: no agent has attached; the session is there because the unit is removed by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,
    /// Relations, since a restore, that the unit takes itself to be in and could not be let into, or is in without the
    /// subordinate it had brought. To it they are shown suspended, so that it leaves, and enters as soon as it can.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shut_out: BTreeSet<Uuid>,
}

/// When a session was granted: an epoch is one of its history, and its nonce is good until its first record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    pub history: Uuid,
    /// Of the last record applied by then.
    pub sequence: u64,
}

/// What the controller knows of a unit's own memory: the last record applied, its digest, the answer given, and
/// `Local` as of it (design 4), without the bags the unit wrote: those are documents of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaDoc {
    pub sequence: u64,
    pub digest: String,
    pub refusal: Option<String>,
    /// Writes of that record that had nothing left to apply to, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    pub local: Local,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedDoc {
    pub episode: u64,
    pub retry: bool,
}

/// One side of a relation. A peer relation has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideDoc {
    pub application: Uuid,
    pub application_name: String,
    pub endpoint: String,
    pub role: Role,
    pub interface: String,
    /// The provider side of `juju-info`: scope is entered, no hook runs.
    pub implicit: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationDoc {
    pub number: RelationNumber,
    pub sides: Vec<SideDoc>,
    pub scope: Scope,
    /// Units of one end come with units of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<Bond>,
    pub created_ms: i64,
}

/// A relation of container scope between a subordinate application and one that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bond {
    pub subordinate: Uuid,
    pub principal: Uuid,
    /// The number of the first of an unbroken line of Alive relations between the two. Once the line has ended its
    /// subordinates are Dying for good, whatever is added after it (I17).
    pub line: RelationNumber,
}

/// A relation that was suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedDoc {
    /// Why, as the person said it.
    pub message: String,
    pub since_ms: i64,
}

impl RelationDoc {
    pub fn is_peer(&self) -> bool {
        self.sides.len() == 1
    }
    pub fn side_of(&self, application: Uuid) -> Option<&SideDoc> {
        self.sides.iter().find(|side| side.application == application)
    }
    /// The side whose units `application`'s units observe; of a peer relation, its own.
    pub fn other_side(&self, application: Uuid) -> &SideDoc {
        let other = self.sides.iter().find(|side| side.application != application);
        other.unwrap_or(&self.sides[0])
    }
    /// `mysql:server web:db`, ends in text order; `web:ring` for a peer. What makes two relations the same one.
    pub fn key_text(&self) -> String {
        key_text(self.sides.iter().map(|side| (&*side.application_name, &*side.endpoint)))
    }
}

/// Of applications and their endpoints, see [`RelationDoc::key_text`].
pub(super) fn key_text<'a>(ends: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let ends = ends.into_iter().map(|(application, endpoint)| format!("{application}:{endpoint}"));
    let mut ends: Vec<String> = ends.collect();
    ends.sort();
    ends.join(" ")
}

/// A unit in scope. The incarnation is new at every entry: a unit that left and came back is another member
/// (spec A.11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScopeDoc {
    pub unit: UnitName,
    pub application: Uuid,
    pub incarnation: u64,
}

/// A settings bag. `counter` grows with each effective write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BagDoc {
    /// Unit or application name, for readers.
    pub owner: String,
    /// Of a unit in a container relation: in whose container it is (or was) in scope; nil of all others.
    #[serde(default, skip_serializing_if = "is_nil")]
    pub container: Uuid,
    pub counter: u64,
    pub values: Bag,
}

fn is_nil(id: &Uuid) -> bool {
    *id == Uuid(0)
}

/// Who leads an application; a new holder is a new generation. No times in it (design 13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantDoc {
    pub holder: Uuid,
    pub holder_name: UnitName,
    pub generation: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionDoc {
    pub id: u64,
    pub unit: Uuid,
    pub unit_name: UnitName,
    pub name: String,
    pub params: BTreeMap<String, Value>,
    /// pending, running, completed, failed.
    pub status: String,
    pub message: String,
    pub results: BTreeMap<String, Value>,
    pub log: Vec<(i64, String)>,
    pub enqueued_ms: i64,
    pub started_ms: Option<i64>,
    pub completed_ms: Option<i64>,
}

/// An entity that is removed by force (see `force`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedDoc {
    pub kind: ForcedKind,
    /// When it was asked for, or found Dying.
    pub since_ms: i64,
    /// From then on the controller acts in place of the entity's agent.
    pub due_ms: i64,
    /// Nor does it wait for the machine agent.
    pub no_wait: bool,
    pub by: ForcedBy,
    /// Of an application or a machine: how far what belongs to it was forced with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Of the wait that goes on: how much of it the controller has seen pass, as far as it wrote that down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: i64,
}

fn is_zero(ms: &i64) -> bool {
    *ms == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedKind {
    Unit,
    Application,
    Relation,
    Machine,
}

/// What made an entity forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedBy {
    /// A removal with `--force`, of the entity or of what it belongs to.
    Person,
    /// The model's `teardown-budget`.
    Budget,
}

/// A removed entity leaves one, so that its agent learns of the removal from positive evidence (design 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TombstoneDoc {
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogDoc {
    pub at_ms: i64,
    pub level: String,
    /// `unit.web/0.juju-log`.
    pub module: String,
    /// `unit-web-0`.
    pub entity: String,
    pub text: String,
}

/// The open ports of one unit, with its name for messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPortsDoc {
    pub unit: UnitName,
    pub ports: BTreeMap<String, BTreeSet<String>>,
}

/// Whose a token is. Stored under the token's hash, never under the token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Principal {
    User {
        name: String,
        role: UserRole,
    },
    Machine {
        model: Model,
        machine: Uuid,
    },
    Unit {
        model: Model,
        unit: Uuid,
    },
    /// Who may introduce a machine that a person brings, once, and not later than this.
    Enrolment {
        model: Model,
        machine: Uuid,
        expires_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    Read,
    Write,
    Admin,
}

/// A charm archive that was uploaded: what it declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchiveDoc {
    pub charm: Arc<Charm>,
    pub bytes: u64,
}

impl Model {
    /// `<model>/<kind>/<id>/...`, without the detour over a formatter: keys are made all the time.
    fn text(&self, kind: &str, ids: &[Uuid]) -> String {
        let mut text = String::with_capacity(KEY_LENGTH);
        self.0.append_to(&mut text);
        text.push('/');
        text.push_str(kind);
        for id in ids {
            text.push('/');
            id.append_to(&mut text);
        }
        text
    }

    fn key<T>(&self, kind: &str, ids: &[Uuid]) -> Key<T> {
        Key::new(self.text(kind, ids))
    }

    fn named<T>(&self, kind: &str, name: &str) -> Key<T> {
        Key::new(self.below(kind, &[]) + name)
    }

    fn other<T>(&self, rest: fmt::Arguments<'_>) -> Key<T> {
        Key::new(format!("{}/{rest}", self.0))
    }

    /// The prefix of the keys that go on after these ids.
    fn below(&self, kind: &str, ids: &[Uuid]) -> String {
        self.text(kind, ids) + "/"
    }

    pub fn model(&self) -> Key<ModelDoc> {
        self.key("model", &[])
    }
    pub fn model_config(&self) -> Key<BTreeMap<String, Value>> {
        self.key("model-config", &[])
    }
    pub fn model_life(&self) -> Key<Life> {
        self.key("model-life", &[])
    }
    /// There while the model is being destroyed.
    pub fn model_destruction(&self) -> Key<DestructionDoc> {
        self.key("model-destruction", &[])
    }
    /// Under [`GLOBAL`]: a model's name -> its uuid.
    pub fn model_name(&self, name: &str) -> Key<Uuid> {
        self.named("model-name", name)
    }
    /// Under [`GLOBAL`].
    pub fn token(&self, sha256: &str) -> Key<Principal> {
        self.named("token", sha256)
    }
    /// Under [`GLOBAL`]: which token a unit or machine has, to revoke it: entity -> hash.
    pub fn token_of(&self, entity: Uuid) -> Key<String> {
        self.key("token-of", &[entity])
    }
    /// Under [`GLOBAL`].
    pub fn archive(&self, sha256: &str) -> Key<ArchiveDoc> {
        self.named("archive", sha256)
    }

    /// Next number of a sequence: `machine`, `relation`, `action`, `unit/<application name>`. Kept after removal:
    /// numbers are never reused.
    pub fn sequence(&self, name: &str) -> Key<u64> {
        self.named("sequence", name)
    }
    pub fn tombstone(&self, id: Uuid) -> Key<TombstoneDoc> {
        self.key("tombstone", &[id])
    }

    pub fn machine(&self, id: Uuid) -> Key<MachineDoc> {
        self.key("machine", &[id])
    }
    pub fn machine_life(&self, id: Uuid) -> Key<Life> {
        self.key("machine-life", &[id])
    }
    pub fn machine_instance(&self, id: Uuid) -> Key<InstanceDoc> {
        self.key("machine-instance", &[id])
    }
    pub fn machine_trouble(&self, id: Uuid) -> Key<TroubleDoc> {
        self.key("machine-trouble", &[id])
    }
    pub fn machine_name(&self, name: &str) -> Key<Uuid> {
        self.named("machine-name", name)
    }
    /// A machine's units, principals and subordinates.
    pub fn unit_on(&self, machine: Uuid, unit: Uuid) -> Key<()> {
        self.key("unit-on", &[machine, unit])
    }
    pub fn units_on(&self, machine: Uuid) -> String {
        self.below("unit-on", &[machine])
    }

    /// What one unit of a machine has open, by endpoint; only units with open ports are here, so that a conflict is
    /// found in one page.
    pub fn ports_on(&self, machine: Uuid, unit: Uuid) -> Key<OpenPortsDoc> {
        self.key("ports-on", &[machine, unit])
    }
    pub fn all_ports_on(&self, machine: Uuid) -> String {
        self.below("ports-on", &[machine])
    }

    pub fn application(&self, id: Uuid) -> Key<ApplicationDoc> {
        self.key("application", &[id])
    }
    pub fn application_life(&self, id: Uuid) -> Key<Life> {
        self.key("application-life", &[id])
    }
    pub fn application_charm(&self, id: Uuid) -> Key<CharmDoc> {
        self.key("application-charm", &[id])
    }
    /// What the user set; defaults belong to the charm.
    pub fn application_config(&self, id: Uuid) -> Key<BTreeMap<String, Value>> {
        self.key("application-config", &[id])
    }
    pub fn application_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key("application-status", &[id])
    }
    pub fn application_name(&self, name: &str) -> Key<Uuid> {
        self.named("application-name", name)
    }
    pub fn leader(&self, application: Uuid) -> Key<GrantDoc> {
        self.key("leader", &[application])
    }
    pub fn unit_of(&self, application: Uuid, unit: Uuid) -> Key<()> {
        self.key("unit-of", &[application, unit])
    }
    pub fn units_of(&self, application: Uuid) -> String {
        self.below("unit-of", &[application])
    }
    /// A destroyed application with more relations than one transaction removes: the last relation looked at
    /// (design 5, "sideways").
    pub fn reap(&self, application: Uuid) -> Key<String> {
        self.key("reap", &[application])
    }
    pub fn relation_of(&self, application: Uuid, relation: Uuid) -> Key<()> {
        self.key("relation-of", &[application, relation])
    }
    pub fn relations_of(&self, application: Uuid) -> String {
        self.below("relation-of", &[application])
    }

    pub fn unit(&self, id: Uuid) -> Key<UnitDoc> {
        self.key("unit", &[id])
    }
    pub fn unit_life(&self, id: Uuid) -> Key<Life> {
        self.key("unit-life", &[id])
    }
    pub fn unit_name(&self, name: &UnitName) -> Key<Uuid> {
        self.other(format_args!("unit-name/{name}"))
    }
    /// A principal's subordinates: one of each application at most.
    pub fn subordinate(&self, principal: Uuid, application: Uuid, unit: Uuid) -> Key<()> {
        self.key("subordinate", &[principal, application, unit])
    }
    pub fn subordinates(&self, principal: Uuid) -> String {
        self.below("subordinate", &[principal])
    }
    pub fn subordinates_of(&self, principal: Uuid, application: Uuid) -> String {
        self.below("subordinate", &[principal, application])
    }
    /// The relations between a subordinate application and its principals' that are Alive themselves, by their line.
    pub fn container(&self, bond: &Bond, relation: Uuid) -> Key<()> {
        let Bond { subordinate, principal, line } = bond;
        self.other(format_args!("container/{subordinate}/{principal}/{line}/{relation}"))
    }
    pub fn containers(&self, subordinate: Uuid, principal: Uuid) -> String {
        self.below("container", &[subordinate, principal])
    }
    pub fn containers_of(&self, bond: &Bond) -> String {
        let Bond { subordinate, principal, line } = bond;
        format!("{}/container/{subordinate}/{principal}/{line}/", self.0)
    }
    /// Workload status, set by the charm.
    pub fn unit_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key("unit-status", &[id])
    }
    /// Agent status: allocating, executing, idle, error.
    pub fn agent_status(&self, id: Uuid) -> Key<StatusDoc> {
        self.key("agent-status", &[id])
    }
    pub fn workload_version(&self, id: Uuid) -> Key<String> {
        self.key("workload-version", &[id])
    }
    pub fn session(&self, unit: Uuid) -> Key<SessionDoc> {
        self.key("session", &[unit])
    }
    pub fn replica(&self, unit: Uuid) -> Key<ReplicaDoc> {
        self.key("replica", &[unit])
    }
    pub fn resolved(&self, unit: Uuid) -> Key<ResolvedDoc> {
        self.key("resolved", &[unit])
    }
    /// endpoint (or `*`) -> ranges in their text form (`80/tcp`).
    pub fn ports(&self, unit: Uuid) -> Key<BTreeMap<String, BTreeSet<String>>> {
        self.key("ports", &[unit])
    }

    pub fn relation(&self, id: Uuid) -> Key<RelationDoc> {
        self.key("relation", &[id])
    }
    pub fn relation_life(&self, id: Uuid) -> Key<Life> {
        self.key("relation-life", &[id])
    }
    /// There while the relation is suspended.
    pub fn relation_suspended(&self, id: Uuid) -> Key<SuspendedDoc> {
        self.key("relation-suspended", &[id])
    }
    /// [`RelationDoc::key_text`] -> the relation.
    pub fn relation_key(&self, ends: &str) -> Key<Uuid> {
        self.named("relation-key", ends)
    }
    /// `container` is the principal's uuid in a container relation, nil in a global one.
    pub fn scope(&self, relation: Uuid, container: Uuid, unit: Uuid) -> Key<ScopeDoc> {
        self.key("scope", &[relation, container, unit])
    }
    pub fn scopes(&self, relation: Uuid) -> String {
        self.below("scope", &[relation])
    }
    /// Of a container relation: who is in one principal's container.
    pub fn scopes_in(&self, relation: Uuid, container: Uuid) -> String {
        self.below("scope", &[relation, container])
    }
    /// Which scopes a unit is in: found without reading every relation.
    pub fn scope_of(&self, unit: Uuid, relation: Uuid) -> Key<()> {
        self.key("scope-of", &[unit, relation])
    }
    pub fn scopes_of(&self, unit: Uuid) -> String {
        self.below("scope-of", &[unit])
    }
    /// `owner` is a unit's or an application's uuid.
    pub fn bag(&self, relation: Uuid, owner: Uuid) -> Key<BagDoc> {
        self.key("bag", &[relation, owner])
    }
    pub fn bags(&self, relation: Uuid) -> String {
        self.below("bag", &[relation])
    }
    /// Leftovers of a removed relation or unit, for the janitor: the prefix to clear.
    pub fn cleanup(&self, id: Uuid) -> Key<Vec<String>> {
        self.key("cleanup", &[id])
    }
    pub fn cleanups(&self) -> String {
        self.below("cleanup", &[])
    }

    /// There while the entity is to go by force.
    pub fn forced(&self, id: Uuid) -> Key<ForcedDoc> {
        self.key("forced", &[id])
    }

    pub fn action(&self, id: u64) -> Key<ActionDoc> {
        self.other(format_args!("action/{id:010}"))
    }
    /// Actions of a unit that are not finished; true = its agent has begun it.
    pub fn action_of(&self, unit: Uuid, id: u64) -> Key<bool> {
        self.other(format_args!("action-of/{unit}/{id:010}"))
    }
    pub fn actions_of(&self, unit: Uuid) -> String {
        self.below("action-of", &[unit])
    }

    /// `hook` and `call` number the line within its unit, so that a line sent twice is stored once.
    pub fn log(&self, unit: Uuid, hook: u64, call: u32) -> Key<LogDoc> {
        self.other(format_args!("log/{unit}/{hook:010}/{call:06}"))
    }
    pub fn logs(&self) -> String {
        self.below("log", &[])
    }

    /// Everything of one kind in this model: `unit`, `relation`, ...
    pub fn all(&self, kind: &str) -> String {
        self.below(kind, &[])
    }
}

/// The last part of a key, when it is a uuid.
pub fn last_id(key: &str) -> Option<Uuid> {
    key.rsplit('/').next()?.parse().ok()
}
