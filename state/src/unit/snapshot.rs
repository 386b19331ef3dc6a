//! What the controller last showed a unit: one view at one position, replaced by deltas, never acted on as an event
//! (design 1, 9).

use crate::charm::{Charm, Scope};
use crate::documents::keys::{CharmDoc, ResolvedDoc, StatusDoc};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::proxy::Proxies;
use crate::terms::settings::Bag;
use crate::terms::version::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelView {
    pub uuid: Uuid,
    pub name: String,
    /// 0 = never.
    pub update_status_ms: u64,
    /// Automatic retries of a failing hook; none = unlimited. 0 = automatically-retry-hooks off.
    pub hook_retries_max: Option<u32>,
    pub proxies: Proxies,
    /// Hooks of different units of a machine may run at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    pub uuid: Uuid,
    pub name: UnitName,
    pub application: Uuid,
    pub machine: String,
    pub address: String,
    pub principal: Option<UnitName>,
    /// Effective life: the furthest of the unit's, its application's, its principal's, its machine's.
    pub life: Life,
    /// Subordinates not yet removed: the unit may not be Dead while one is left.
    pub subordinates: BTreeSet<UnitName>,
    /// Those of them that are not Alive: a relation that would bring another unit of their application waits.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<UnitName>,
    /// The machine takes no more units: a relation that would bring one waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machine_full: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CharmView {
    pub charm: CharmDoc,
    pub declared: Arc<Charm>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantView {
    pub holder: UnitName,
    pub generation: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionView {
    pub name: String,
    /// An agent of this unit has begun it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    pub params: BTreeMap<String, Value>,
}

/// A relation of the unit's application, without its members and bags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationHead {
    pub uuid: Uuid,
    pub endpoint: String,
    pub interface: String,
    pub peer: bool,
    pub implicit: bool,
    pub scope: Scope,
    pub remote_application: String,
    pub remote_application_uuid: Uuid,
    pub remote_endpoint: String,
    /// Effective life: Dying too when an application of it is.
    pub life: Life,
    pub suspended: bool,
    /// This unit, as a principal, brings a unit of the remote application along when it enters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brings: bool,
}

/// A bag's version, and its values if they came along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BagView {
    pub counter: u64,
    /// None: withheld. They are fetched when they are wanted (design 9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Bag>,
    /// Bytes of the values as JSON, with them or without.
    pub bytes: usize,
}

impl BagView {
    /// With its values.
    pub fn whole(counter: u64, values: Bag) -> BagView {
        let bytes = serde_json::to_vec(&values).expect("bags are plain data").len();
        BagView { counter, values: Some(values), bytes }
    }
}

/// Which bag is wanted, as of when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BagRequest {
    /// The relation's uuid.
    pub relation: Uuid,
    pub owner: Owner,
    /// As it was then, if the controller still knows; else as it is.
    pub at: Position,
}

/// A withheld bag that was fetched for the hook about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    relation: Uuid,
    owner: Owner,
    counter: u64,
    values: Bag,
}

/// One part of a view, whole; none = no longer there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Model(ModelView),
    Unit(UnitView),
    Charm(CharmView),
    /// What the user set; defaults are the charm's.
    Config(BTreeMap<String, Value>),
    Leader(Option<GrantView>),
    Resolved(Option<ResolvedDoc>),
    Action {
        id: u64,
        action: Option<ActionView>,
    },
    Relation {
        relation: RelationNumber,
        head: Option<RelationHead>,
    },
    /// A counterpart in scope, with the incarnation of its membership.
    Member {
        relation: RelationNumber,
        unit: UnitName,
        incarnation: Option<u64>,
    },
    Bag {
        relation: RelationNumber,
        owner: Owner,
        bag: Option<BagView>,
    },
    /// Cold (design 17): other units' workload status, for goal-state and status-get.
    Status {
        unit: UnitName,
        status: Option<StatusDoc>,
    },
    /// Cold: what the leader said of the application.
    ApplicationStatus(Option<StatusDoc>),
    /// Cold: what other units on this machine have open.
    MachinePorts {
        unit: UnitName,
        ports: BTreeMap<String, BTreeSet<String>>,
    },
    /// A tombstone of this unit's uuid: the one positive evidence of removal (design 7).
    Removed,
}

/// Everything that became visible at one revision; `full` replaces the view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    pub position: Position,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationView {
    pub head: RelationHead,
    pub members: BTreeMap<UnitName, u64>,
    pub bags: Vec<(Owner, BagView)>,
}

impl RelationView {
    pub fn bag(&self, owner: &Owner) -> Option<&BagView> {
        let at = self.bags.binary_search_by(|(o, _)| o.cmp(owner)).ok()?;
        Some(&self.bags[at].1)
    }

    /// The version of a member: its incarnation and its bag's counter.
    pub fn version(&self, unit: &UnitName) -> Option<Version> {
        let incarnation = *self.members.get(unit)?;
        let counter = self.bag(&Owner::Unit(unit.clone())).map_or(0, |bag| bag.counter);
        Some(Version { incarnation, counter })
    }
}

/// The view itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub position: Position,
    pub model: ModelView,
    pub unit: UnitView,
    pub charm: CharmView,
    pub config: BTreeMap<String, Value>,
    pub leader: Option<GrantView>,
    pub resolved: Option<ResolvedDoc>,
    pub actions: BTreeMap<u64, ActionView>,
    pub relations: BTreeMap<RelationNumber, RelationView>,
    pub statuses: BTreeMap<UnitName, StatusDoc>,
    pub application_status: Option<StatusDoc>,
    pub machine_ports: BTreeMap<UnitName, BTreeMap<String, BTreeSet<String>>>,
    pub removed: bool,
    /// One at a time: what comes along is bounded, and so is what is fetched.
    #[serde(skip)]
    pub fetched: Option<Fetched>,
}

/// A full view that lacks its model, unit or charm. The sender is broken; the view is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteView;

impl Snapshot {
    /// A view from a full delta.
    pub fn from_full(delta: Delta) -> Result<Snapshot, IncompleteView> {
        let (mut model, mut unit, mut charm) = (None, None, None);
        let mut rest = Vec::new();
        for change in delta.changes {
            match change {
                Change::Model(view) => model = Some(view),
                Change::Unit(view) => unit = Some(view),
                Change::Charm(view) => charm = Some(view),
                other => rest.push(other),
            }
        }
        let mut snapshot = Snapshot {
            position: delta.position,
            model: model.ok_or(IncompleteView)?,
            unit: unit.ok_or(IncompleteView)?,
            charm: charm.ok_or(IncompleteView)?,
            config: BTreeMap::new(),
            leader: None,
            resolved: None,
            actions: BTreeMap::new(),
            relations: BTreeMap::new(),
            statuses: BTreeMap::new(),
            application_status: None,
            machine_ports: BTreeMap::new(),
            removed: false,
            fetched: None,
        };
        snapshot.apply(Delta { position: delta.position, full: false, changes: rest });
        Ok(snapshot)
    }

    /// The values of a bag this view shows, if they came along or were fetched as they are in this view.
    pub fn values(&self, relation: RelationNumber, owner: &Owner) -> Option<&Bag> {
        let view = self.relations.get(&relation)?;
        let bag = view.bag(owner)?;
        let fetched = self.fetched.as_ref().filter(|fetched| {
            (fetched.relation, &fetched.owner, fetched.counter) == (view.head.uuid, owner, bag.counter)
        });
        bag.values.as_ref().or(fetched.map(|fetched| &fetched.values))
    }

    /// Keeps what was answered. If it is newer than what this view shows it is of no use: the view is about to
    /// follow, and until then a hook that saw it would see one bag ahead of all others (I5).
    /// True: it is as this view shows it.
    pub fn keep_fetched(&mut self, asked: BagRequest, bag: BagView) -> bool {
        let BagRequest { relation, owner, .. } = asked;
        let shown = self.relations.values().find(|view| view.head.uuid == relation);
        let same = shown.and_then(|view| view.bag(&owner)).is_some_and(|shown| shown.counter == bag.counter);
        let fetched = |values| Fetched { relation, owner, counter: bag.counter, values };
        self.fetched = bag.values.filter(|_| same).map(fetched);
        self.fetched.is_some()
    }

    /// Takes one delta of the same history. A delta at or before the own position is a repetition: no effect.
    pub fn apply(&mut self, delta: Delta) {
        for change in delta.changes {
            self.change(change);
        }
        self.position = delta.position;
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Model(view) => self.model = view,
            Change::Unit(view) => self.unit = view,
            Change::Charm(view) => self.charm = view,
            Change::Config(values) => self.config = values,
            Change::Leader(grant) => self.leader = grant,
            Change::Resolved(mark) => self.resolved = mark,
            Change::Action { id, action } => put(&mut self.actions, id, action),
            Change::Relation { relation, head: None } => {
                self.relations.remove(&relation);
            }
            Change::Relation { relation, head: Some(head) } => match self.relations.get_mut(&relation) {
                Some(view) => view.head = head,
                None => {
                    let view = RelationView { head, members: BTreeMap::new(), bags: Vec::new() };
                    self.relations.insert(relation, view);
                }
            },
            Change::Member { relation, unit, incarnation } => {
                if let Some(view) = self.relations.get_mut(&relation) {
                    put(&mut view.members, unit, incarnation);
                }
            }
            Change::Bag { relation, owner, bag } => {
                let Some(view) = self.relations.get_mut(&relation) else { return };
                match (view.bags.binary_search_by(|(o, _)| o.cmp(&owner)), bag) {
                    (Ok(at), Some(bag)) => view.bags[at].1 = bag,
                    (Ok(at), None) => {
                        view.bags.remove(at);
                    }
                    (Err(at), Some(bag)) => view.bags.insert(at, (owner, bag)),
                    (Err(_), None) => {}
                }
            }
            Change::Status { unit, status } => put(&mut self.statuses, unit, status),
            Change::ApplicationStatus(status) => self.application_status = status,
            Change::MachinePorts { unit, ports } => {
                put(&mut self.machine_ports, unit, (!ports.is_empty()).then_some(ports));
            }
            Change::Removed => self.removed = true,
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}
