//! The view of the model that a unit agent has received from the controller, and the deltas that update it.
//!
//! A view is the state at one position of the store. Agents compare it with their own state; they never treat a delta
//! as an event to act on, because deltas may be merged or repeated (design 1, 9). The controller builds views in
//! `views`; the agent keeps the newest in memory and a copy on disk, and passes it to `resolve` and
//! `hook_context_builder`.

use super::logging_config::LoggingConfig;
use super::relation_view::{BagRequest, BagView, FetchedBag, RelationHead, RelationView};
use super::secrets::SecretView;
use super::storage::StorageView;
use crate::charm::Charm;
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::port_range::Ports;
use crate::terms::position::Position;
use crate::terms::proxy::Proxies;
use crate::terms::secret::SecretId;
use crate::terms::settings::Bag;
use crate::terms::status::ActionStatus;
use crate::terms::storage::StorageId;
use crate::terms::store_engine::StoreEngine;
use crate::terms::unit_documents::{CharmDoc, ResolvedDoc, StatusDoc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The default of `max-hook-retries` (spec/uniter.md, "Decisions"), also for a unit without a view.
pub const HOOK_RETRIES_DEFAULT: u32 = 10;

/// The model's name and configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelView {
    /// The model's UUID.
    pub uuid: Uuid,
    /// The model's name.
    pub name: String,
    /// The interval of update-status in milliseconds; 0: the hook never runs.
    pub update_status_ms: u64,
    /// The most automatic retries of a failing hook. `None`: unlimited. 0: automatically-retry-hooks is off.
    pub hook_retries_max: Option<u32>,
    /// The proxy settings.
    pub proxies: Proxies,
    /// Whether hooks of different units on a machine may run at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// The levels from which lines of charms are stored.
    #[serde(default, skip_serializing_if = "LoggingConfig::is_default")]
    pub logging: LoggingConfig,
    /// How far the clock of the model was advanced altogether, in milliseconds (`lifecycle::model::advance`).
    #[serde(default)]
    pub advanced_ms: u64,
    /// Whether warm parents fork the hooks of Python charms: the setting `warm-dispatch`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_dispatch: bool,
    /// The engine of the store, which decides how much a hook may write.
    #[serde(default, skip_serializing_if = "StoreEngine::is_default")]
    pub engine: StoreEngine,
}

/// The unit itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitView {
    /// The unit's UUID.
    pub uuid: Uuid,
    /// The unit's name.
    pub name: UnitName,
    /// The UUID of its application.
    pub application: Uuid,
    /// The name of its machine.
    pub machine: String,
    /// The address of its machine.
    pub address: String,
    /// The principal of a subordinate unit.
    pub principal: Option<UnitName>,
    /// The effective life: the most advanced of the unit's, its application's, its principal's and its machine's.
    pub life: Life,
    /// The subordinates that are not removed yet. The unit cannot become Dead while one is left.
    pub subordinates: BTreeSet<UnitName>,
    /// Those subordinates that are not Alive. The unit does not enter a relation that would create another unit of
    /// their application.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub departing_subordinates: BTreeSet<UnitName>,
    /// Whether the machine has its maximum of units. The unit does not enter a relation that would create another
    /// one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machine_full: bool,
}

/// The charm of the unit's application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CharmView {
    /// Which charm it is.
    pub charm: CharmDoc,
    /// What the charm declares.
    pub declared: Arc<Charm>,
}

/// The leadership grant of the unit's application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderView {
    /// The leader.
    pub holder: UnitName,
    /// The generation of the grant, which increases whenever the holder changes.
    pub generation: u64,
}

/// An action that the unit must run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionView {
    /// The action's name.
    pub name: String,
    /// Whether an agent of this unit has started the action.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// Whether a user has cancelled the action after it was started: its process is to be ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborting: bool,
    /// The action's parameters.
    pub params: BTreeMap<String, Value>,
}

impl ActionView {
    /// The view of an action that has not finished, with its status in the index of its unit.
    pub fn new(name: String, params: BTreeMap<String, Value>, status: ActionStatus) -> ActionView {
        ActionView {
            name,
            running: status != ActionStatus::Pending,
            aborting: status == ActionStatus::Aborting,
            params,
        }
    }
}

/// The new value of one part of a view. `None` means that the part was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The model.
    Model(ModelView),
    /// The unit itself.
    Unit(UnitView),
    /// The charm of the application.
    Charm(CharmView),
    /// The settings that operators have set; the defaults are part of the charm.
    Config(BTreeMap<String, Value>),
    /// Whether the application is trusted with the credential of its cloud.
    Trust(bool),
    /// The leadership grant of the application.
    Leader(Option<LeaderView>),
    /// The settings that the leader has stored.
    LeaderSettings(LeaderSettingsView),
    /// The operator's mark that resolves the unit's error.
    Resolved(Option<ResolvedDoc>),
    /// A secret that the unit or its application owns, or that the unit reads.
    Secret {
        /// The secret's id.
        id: SecretId,
        /// The secret.
        secret: Option<Box<SecretView>>,
    },
    /// An instance of storage that is attached to the unit.
    Storage {
        /// The instance's id.
        id: StorageId,
        /// The instance.
        storage: Option<StorageView>,
    },
    /// An action of the unit.
    Action {
        /// The task's number.
        id: u64,
        /// The action.
        action: Option<ActionView>,
    },
    /// A relation without its members and bags.
    Relation {
        /// The relation's number.
        relation: RelationNumber,
        /// The relation.
        head: Option<RelationHead>,
    },
    /// A remote unit in the scope of a relation.
    Member {
        /// The relation's number.
        relation: RelationNumber,
        /// The remote unit.
        unit: UnitName,
        /// The incarnation of its membership: a unit that leaves and re-enters gets another one.
        incarnation: Option<u64>,
    },
    /// A bag of a relation.
    Bag {
        /// The relation's number.
        relation: RelationNumber,
        /// The unit or application that owns the bag.
        owner: Owner,
        /// The bag.
        bag: Option<BagView>,
    },
    /// The workload status of another unit, for goal-state and status-get. Cold data: its change does not wake the
    /// agent (design 17).
    Status {
        /// The other unit.
        unit: UnitName,
        /// Its workload status.
        status: Option<StatusDoc>,
        /// Whether the unit or its machine is being removed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_dying: bool,
    },
    /// The application status that the leader has set. Cold data.
    ApplicationStatus(Option<StatusDoc>),
    /// The ports that another unit on this machine has opened. Cold data.
    MachinePorts {
        /// The other unit.
        unit: UnitName,
        /// Its port ranges by endpoint; empty if it has closed all of them.
        ports: Ports,
    },
    /// A tombstone of this unit's UUID: the only positive evidence that the unit was removed (design 7).
    Removed,
}

/// The changes between two positions of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delta {
    /// The position of the view once the delta is applied.
    pub position: Position,
    /// Whether the changes are a complete view, which replaces the current one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// The changed parts.
    pub changes: Vec<Change>,
}

/// A unit's view: the fold of the deltas that the agent received. The fields are described at [`Change`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The position of the view in the store.
    pub position: Position,
    /// The model.
    pub model: ModelView,
    /// The unit itself.
    pub unit: UnitView,
    /// The charm of the application.
    pub charm: CharmView,
    /// The settings that operators have set.
    pub config: BTreeMap<String, Value>,
    /// Whether the application is trusted with the credential of its cloud.
    pub trusted: bool,
    /// The leadership grant of the application.
    pub leader: Option<LeaderView>,
    /// The settings that the leader has stored.
    pub leader_settings: LeaderSettingsView,
    /// The leader settings that this unit has stored and that no delta has contained yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_leader_settings: Option<LeaderSettingsView>,
    /// The operator's mark that resolves the unit's error.
    pub resolved: Option<ResolvedDoc>,
    /// The secrets that the unit or its application owns, and those that the unit reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<SecretId, SecretView>,
    /// The storage that is attached to the unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<StorageId, StorageView>,
    /// The unit's actions that have not ended, by task number.
    pub actions: BTreeMap<u64, ActionView>,
    /// The relations of the application.
    pub relations: BTreeMap<RelationNumber, RelationView>,
    /// The workload statuses of other units.
    pub statuses: BTreeMap<UnitName, StatusDoc>,
    /// Those of them that are being removed, themselves or with their machine.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dying_units: BTreeSet<UnitName>,
    /// The application status that the leader has set.
    pub application_status: Option<StatusDoc>,
    /// The ports that other units on this machine have opened, by endpoint.
    pub machine_ports: BTreeMap<UnitName, Ports>,
    /// Whether the unit was removed.
    pub removed: bool,
    /// The omitted bag that was fetched last. The view keeps only one, so that its size stays bounded.
    #[serde(skip)]
    pub fetched_bag: Option<FetchedBag>,
}

/// The error for a full view that lacks its model, unit or charm. The agent discards such a view, which only a defect
/// of the controller can produce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteView;

impl Snapshot {
    /// Creates a view from a full delta.
    ///
    /// # Errors
    /// [`IncompleteView`] if the delta lacks the model, the unit or the charm.
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
            trusted: false,
            leader: None,
            leader_settings: LeaderSettingsView::default(),
            written_leader_settings: None,
            resolved: None,
            secrets: BTreeMap::new(),
            storage: BTreeMap::new(),
            actions: BTreeMap::new(),
            relations: BTreeMap::new(),
            statuses: BTreeMap::new(),
            dying_units: BTreeSet::new(),
            application_status: None,
            machine_ports: BTreeMap::new(),
            removed: false,
            fetched_bag: None,
        };
        snapshot.apply(Delta { position: delta.position, full: false, changes: rest });
        Ok(snapshot)
    }

    /// Returns a relation that the unit has entered. None if it is removed: since a restore of the store, another relation
    /// may have its number.
    pub fn relation(&self, number: RelationNumber, uuid: Uuid) -> Option<&RelationView> {
        self.relations.get(&number).filter(|view| view.head.uuid == uuid)
    }

    /// Returns the values of a bag of this view, if the view contains them or they were fetched in the view's
    /// version.
    pub fn values(&self, relation: RelationNumber, owner: &Owner) -> Option<&Bag> {
        let view = self.relations.get(&relation)?;
        let bag = view.bag(owner)?;
        let fetched = self.fetched_bag.as_ref().filter(|fetched| {
            (fetched.relation, &fetched.owner, fetched.counter) == (view.head.uuid, owner, bag.counter)
        });
        bag.values.as_ref().or(fetched.map(|fetched| &fetched.values))
    }

    /// Replaces the fetched bag by this one and returns true, if it has values and the version of this view. Otherwise
    /// the view keeps no fetched bag. A newer version is discarded, because a hook would read one bag ahead of all
    /// others (I5), and the delta that updates the view is about to arrive.
    pub fn keep_fetched(&mut self, request: BagRequest, bag: BagView) -> bool {
        let BagRequest { relation, owner, .. } = request;
        let shown = self.relations.values().find(|view| view.head.uuid == relation);
        let same = shown.and_then(|view| view.bag(&owner)).is_some_and(|shown| shown.counter == bag.counter);
        let fetched = |values| FetchedBag { relation, owner, counter: bag.counter, values };
        self.fetched_bag = bag.values.filter(|_| same).map(fetched);
        self.fetched_bag.is_some()
    }

    /// Applies a delta of the same store generation. Applying a delta that the view already contains changes nothing.
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
            Change::Trust(trusted) => self.trusted = trusted,
            Change::Leader(grant) => self.leader = grant,
            Change::LeaderSettings(settings) => {
                self.written_leader_settings.take_if(|written| written.version <= settings.version);
                self.leader_settings = settings;
            }
            Change::Resolved(mark) => self.resolved = mark,
            Change::Secret { id, secret } => put(&mut self.secrets, id, secret.map(|secret| *secret)),
            Change::Storage { id, storage } => put(&mut self.storage, id, storage),
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
            Change::Status { unit, status, is_dying } => {
                match is_dying {
                    true => self.dying_units.insert(unit.clone()),
                    false => self.dying_units.remove(&unit),
                };
                put(&mut self.statuses, unit, status);
            }
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
