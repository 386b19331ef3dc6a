//! The full view of a unit (design 9). The changes of a unit's view are in [`crate::views::delta`].
//!
//! A unit sees the members of the other end of its relations (of a peer relation the other members, of a
//! container relation those in its own container), its own and its application's bag, and the bags of the
//! remote application and of those units, departed ones included. It must never see anything else of another
//! unit (I31). Called by the watches and by the handlers of the unit agent; the status of units and dry runs use the
//! full view, too.

use crate::charm::Scope;
use crate::documents::document_reads::Documents;
use crate::documents::draft::{Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::prelude::{
    BagDoc, Model, OpenPortsDoc, RelationDoc, ScopeDoc, SessionDoc, UnitDoc, last_id, last_number,
    leader_settings_of,
};
use crate::lifecycle::{application, machine, relation};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::terms::secret::SecretId;
use crate::terms::storage::StorageId;
use crate::unit::relation_view::{BagView, RelationHead};
use crate::unit::secrets::SecretView;
use crate::unit::snapshot::{
    ActionView, Change, CharmView, Delta, LeaderView, ModelView, Snapshot, UnitView,
};
use crate::unit::storage::StorageView;
use crate::views::dependencies::{RelatedUnits, SecretDependencies, UnitDependencies, UnitHosts, ViewUpdate};
use crate::views::inline_settings::{self, BagSizes, INLINE_BYTES_MAX};
use crate::views::unit_view_reader::UnitViewReader;
use std::collections::{BTreeMap, BTreeSet};

/// The full view of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// All parts of the view, as one delta. The store generation of the position is nil, because a reader
    /// contains revisions only; the caller sets it.
    pub delta: Delta,
    /// The maximum number of bytes of inlined settings.
    inline_bytes_max: usize,
    unit_dependencies: UnitDependencies,
    secret_dependencies: SecretDependencies,
    related_units: RelatedUnits,
}

impl View {
    /// The content of this view as sent to an agent; a watch compares later revisions with it.
    pub fn shown(&self) -> SentView {
        let snapshot = Snapshot::from_full(self.delta.clone()).expect("model, unit and charm are in it");
        SentView {
            unit_dependencies: self.unit_dependencies.clone(),
            secret_dependencies: self.secret_dependencies.clone(),
            related_units: self.related_units.clone(),
            ..SentView::from_snapshot(&snapshot, self.inline_bytes_max)
        }
    }
}

/// The key of a unit that is in the scope of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScopeEntry {
    /// The relation.
    pub relation: Uuid,
    /// The principal of the container; the nil UUID in a global relation.
    pub container: Uuid,
    /// The member.
    pub unit: Uuid,
}

/// The content that a watch has sent to an agent so far, as far as [`crate::views::delta::delta`] compares with it.
#[derive(Clone, Debug, PartialEq)]
pub struct SentView {
    /// The model.
    pub model: ModelView,
    /// The unit itself.
    pub unit: UnitView,
    /// The secrets of the unit and its application, and those that it reads.
    pub secrets: BTreeMap<SecretId, SecretView>,
    /// The storage of the unit.
    pub storage: BTreeMap<StorageId, StorageView>,
    /// The relations of the unit.
    pub relations: BTreeMap<RelationNumber, RelationHead>,
    /// The members of the relations, with their incarnations.
    pub members: BTreeMap<(RelationNumber, UnitName), u64>,
    /// Other units of the machine that have open ports.
    pub units_with_ports: BTreeSet<UnitName>,
    /// The sizes of all bags, omitted ones included.
    pub sizes: BagSizes,
    /// The maximum number of bytes of inlined settings.
    pub inline_bytes_max: usize,
    /// What the view of the unit itself depends on.
    pub unit_dependencies: UnitDependencies,
    /// What the secrets depend on.
    pub secret_dependencies: SecretDependencies,
    /// The units of the own application and of related ones.
    pub related_units: RelatedUnits,
}

impl SentView {
    /// The content of a full view that was sent, without what it depends on; `inline_bytes_max` is the limit with which the
    /// view was computed.
    fn from_snapshot(snapshot: &Snapshot, inline_bytes_max: usize) -> SentView {
        let heads = snapshot.relations.iter().map(|(number, view)| (*number, view.head.clone()));
        let members = snapshot.relations.iter().flat_map(|(number, view)| {
            view.members.iter().map(|(unit, incarnation)| ((*number, unit.clone()), *incarnation))
        });
        SentView {
            members: members.collect(),
            model: snapshot.model.clone(),
            unit: snapshot.unit.clone(),
            secrets: snapshot.secrets.clone(),
            storage: snapshot.storage.clone(),
            relations: heads.collect(),
            units_with_ports: snapshot.machine_ports.keys().cloned().collect(),
            sizes: BagSizes::from_snapshot(snapshot),
            inline_bytes_max,
            unit_dependencies: UnitDependencies::default(),
            secret_dependencies: SecretDependencies::default(),
            related_units: RelatedUnits::default(),
        }
    }

    /// Applies an update, the changes of which were sent.
    pub fn apply(&mut self, update: &ViewUpdate) {
        let ViewUpdate { changes, unit_dependencies, secret_dependencies, related_units } = update;
        self.related_units.apply(related_units);
        self.unit_dependencies =
            unit_dependencies.clone().unwrap_or_else(|| std::mem::take(&mut self.unit_dependencies));
        self.secret_dependencies =
            secret_dependencies.clone().unwrap_or_else(|| std::mem::take(&mut self.secret_dependencies));
        self.sizes.apply(changes);
        for change in changes {
            match change {
                Change::Model(view) => self.model = view.clone(),
                Change::Unit(view) => self.unit = view.clone(),
                Change::Relation { relation, head: Some(head) } => {
                    self.relations.insert(*relation, head.clone());
                }
                Change::Relation { relation, head: None } => {
                    self.relations.remove(relation);
                    self.members.retain(|(of, _), _| of != relation);
                }
                Change::Member { relation, unit, incarnation } => {
                    let member = (*relation, unit.clone());
                    match incarnation {
                        Some(incarnation) => self.members.insert(member, *incarnation),
                        None => self.members.remove(&member),
                    };
                }
                Change::MachinePorts { unit, ports } => {
                    match ports.is_empty() {
                        true => self.units_with_ports.remove(unit),
                        false => self.units_with_ports.insert(unit.clone()),
                    };
                }
                Change::Secret { id, secret } => {
                    match secret {
                        Some(secret) => self.secrets.insert(*id, (**secret).clone()),
                        None => self.secrets.remove(id),
                    };
                }
                Change::Storage { id, storage } => {
                    match storage {
                        Some(storage) => self.storage.insert(id.clone(), storage.clone()),
                        None => self.storage.remove(id),
                    };
                }
                Change::Charm(_)
                | Change::Config(_)
                | Change::Trust(_)
                | Change::Leader(_)
                | Change::LeaderSettings(_)
                | Change::Resolved(_)
                | Change::Action { .. }
                | Change::Bag { .. }
                | Change::Status { .. }
                | Change::ApplicationStatus(_)
                | Change::Removed => {}
            }
        }
    }

    /// Whether the statuses of the units of this application are shown.
    pub(crate) fn shows_units_of(&self, application: Uuid) -> bool {
        let is_remote = |head: &RelationHead| head.remote_application_uuid == application;
        self.unit.application == application || self.relations.values().any(is_remote)
    }

    /// Whether the status or the open ports of the unit of this name may be shown.
    pub(crate) fn shows_unit(&self, name: &UnitName) -> bool {
        let is_remote = |head: &RelationHead| head.remote_application == name.application;
        self.unit.name.application == name.application
            || self.relations.values().any(is_remote)
            || self.units_with_ports.contains(name)
    }

    /// The relation with this UUID, if it was sent.
    pub(crate) fn relation(&self, id: Uuid) -> Option<(RelationNumber, &RelationHead)> {
        self.relations.iter().find(|(_, head)| head.uuid == id).map(|(number, head)| (*number, head))
    }
}

/// The full view of a unit at the revision of the reader; none for a unit that does not exist (see
/// [`existence`](mod@crate::documents::existence)).
pub fn full_view(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<View> {
    full_view_within(reader, model, unit, INLINE_BYTES_MAX)
}

/// As [`full_view`], but with at most `inline_bytes_max` bytes of settings; tests use a lower limit.
pub fn full_view_within(
    reader: &dyn Reader,
    model: Model,
    unit: Uuid,
    inline_bytes_max: usize,
) -> Option<View> {
    let doc = read(reader, &model.unit(unit))?;
    let view_reader = UnitViewReader { reader, model, unit, doc: &doc };
    let (unit_view, unit_dependencies) = view_reader.unit_view()?;
    let mut changes = vec![
        Change::Model(crate::lifecycle::model::model_view(&mut { reader }, model)?),
        Change::Unit(unit_view),
        Change::Charm(view_reader.charm()?),
        Change::Config(read(reader, &model.application_config(doc.application)).unwrap_or_default()),
        Change::Trust(read(reader, &model.application_trust(doc.application)).unwrap_or_default()),
        Change::Leader(view_reader.leader()),
        Change::LeaderSettings(leader_settings_of(reader, model, doc.application)),
        Change::Resolved(read(reader, &model.resolved(unit))),
        Change::ApplicationStatus(read(reader, &model.application_status(doc.application))),
    ];
    let (secrets, secret_dependencies) = view_reader.secrets();
    changes.extend(
        secrets.into_iter().map(|(id, secret)| Change::Secret { id, secret: Some(Box::new(secret)) }),
    );
    let storage = view_reader.storage().into_iter();
    changes.extend(storage.map(|(id, storage)| Change::Storage { id, storage: Some(storage) }));
    for (key, _) in read_all::<crate::terms::status::ActionStatus>(reader, &model.actions_of(unit)) {
        changes.extend(last_number(&key).map(|id| view_reader.action(id)));
    }
    let mut applications = BTreeSet::from([doc.application]);
    for (key, ()) in read_all(reader, &model.relations_of(doc.application)) {
        let id = last_id(&key)?;
        let relation = read(reader, &model.relation(id))?;
        if !doc.takes_part_in(&relation) {
            continue;
        }
        applications.insert(relation.other_end(doc.application).application);
        changes.extend(view_reader.full_relation(id, &relation));
    }
    let mut related_units = RelatedUnits::default();
    for id in applications.iter().flat_map(|id| view_reader.units_of(*id)) {
        let Some(doc) = read(reader, &model.unit(id)) else { continue };
        changes.extend(view_reader.status(id, &doc));
        related_units.insert(id, UnitHosts::new(&doc, view_reader.is_dying(id, &doc)));
    }
    for (key, ports) in read_all::<OpenPortsDoc>(reader, &model.machine_ports_prefix(doc.machine)) {
        if last_id(&key) != Some(unit) {
            changes.push(Change::MachinePorts { unit: ports.unit, ports: ports.ports });
        }
    }
    let mut sizes = BagSizes::default();
    sizes.apply(&changes);
    inline_settings::omit_values(&mut changes, &sizes.omitted(inline_bytes_max));
    let position = Position { store_generation: Uuid(0), revision: reader.revision() };
    let delta = Delta { position, full: true, changes };
    Some(View { delta, inline_bytes_max, unit_dependencies, secret_dependencies, related_units })
}

impl UnitViewReader<'_> {
    /// The view of the unit itself, and what it depends on; none if its machine does not exist.
    pub fn unit_view(&self) -> Option<(UnitView, UnitDependencies)> {
        let machine = read(self.reader, &self.model.machine(self.doc.machine))?;
        let (mut subordinates, mut departing_subordinates) = (BTreeSet::new(), BTreeSet::new());
        let mut units: BTreeSet<Uuid> = self.doc.principal.into_iter().collect();
        for (key, ()) in read_all::<()>(self.reader, &self.model.subordinates(self.unit)) {
            let id = last_id(&key)?;
            let unit = read(self.reader, &self.model.unit(id))?;
            if effective_life::unit_life_of(&mut { self.reader }, self.model, id, &unit) != Life::Alive {
                departing_subordinates.insert(unit.name.clone());
            }
            subordinates.insert(unit.name);
            units.insert(id);
        }
        let principal = self.doc.principal.and_then(|id| read(self.reader, &self.model.unit(id)));
        let view = UnitView {
            uuid: self.unit,
            name: self.doc.name.clone(),
            application: self.doc.application,
            machine: machine.name,
            address: machine.address,
            principal: principal.map(|principal| principal.name),
            life: effective_life::unit_life_of(&mut { self.reader }, self.model, self.unit, self.doc),
            subordinates,
            departing_subordinates,
            machine_full: machine::is_full(&mut { self.reader }, self.model, self.doc.machine),
        };
        Some((view, UnitDependencies { machine: self.doc.machine, units }))
    }

    /// The charm of the application.
    pub fn charm(&self) -> Option<CharmView> {
        let (mut charm, declared) =
            application::charm_of(&mut { self.reader }, self.model, self.doc.application)?;
        charm.previous.clear();
        charm.resources = charm.resources.shown();
        Some(CharmView { charm, declared })
    }

    /// The leadership grant of the application, if there is one.
    pub fn leader(&self) -> Option<LeaderView> {
        let grant = read(self.reader, &self.model.leader(self.doc.application))?;
        Some(LeaderView { holder: grant.holder_name, generation: grant.generation })
    }

    /// An action that has not finished; none for one that has.
    pub fn action(&self, id: u64) -> Change {
        let status = read(self.reader, &self.model.action_of(self.unit, id));
        let doc = read(self.reader, &self.model.action(id)).zip(status);
        Change::Action { id, action: doc.map(|(doc, status)| ActionView::new(doc.name, doc.params, status)) }
    }

    /// The workload status of a unit with this document. The caller must ensure that the viewing unit sees its application.
    pub fn status(&self, id: Uuid, doc: &UnitDoc) -> Option<Change> {
        let status = read(self.reader, &self.model.unit_status(id))?;
        let is_dying = self.is_dying(id, doc);
        Some(Change::Status { unit: doc.name.clone(), status: Some(status), is_dying })
    }

    /// Whether a unit with this document or its machine is being removed. The life of its application does not count: if
    /// an application is destroyed, the status of each of its units would change in the view of each other.
    pub fn is_dying(&self, id: Uuid, doc: &UnitDoc) -> bool {
        let lives = [self.model.unit_life(id), self.model.machine_life(doc.machine)];
        lives.iter().any(|life| read(self.reader, life).is_some_and(|life: Life| life != Life::Alive))
    }

    /// The units of an application.
    pub fn units_of(&self, application: Uuid) -> Vec<Uuid> {
        let index = read_all::<()>(self.reader, &self.model.units_of(application));
        index.iter().filter_map(|(key, ())| last_id(key)).collect()
    }

    /// The relation without its members and bags.
    pub fn head(&self, id: Uuid, relation: &RelationDoc) -> RelationHead {
        let own = relation.end_of(self.doc.application).expect("a relation's index is of its ends (I22)");
        let other = relation.other_end(self.doc.application);
        let creates_subordinate = relation
            .subordinate_link
            .is_some_and(|subordinate_link| subordinate_link.principal == self.doc.application);
        let session = creates_subordinate
            .then(|| read::<SessionDoc>(self.reader, &self.model.session(self.unit)))
            .flatten();
        let pending_reentry = session.is_some_and(|session| session.pending_reentry.contains(&id));
        RelationHead {
            uuid: id,
            endpoint: own.endpoint.clone(),
            interface: own.interface.clone(),
            peer: relation.is_peer(),
            implicit: own.implicit,
            scope: relation.scope,
            remote_application: other.application_name.clone(),
            remote_application_uuid: other.application,
            remote_endpoint: other.endpoint.clone(),
            life: effective_life::relation_life_of(&mut { self.reader }, self.model, id, relation),
            suspended: pending_reentry || read(self.reader, &self.model.relation_suspended(id)).is_some(),
            creates_subordinate,
        }
    }

    fn container(&self, scope: Scope) -> Uuid {
        relation::container(scope, self.unit, self.doc)
    }

    /// Whether members and bags in this container of a relation are visible to the unit.
    pub fn is_container_visible(&self, scope: Scope, container: Uuid) -> bool {
        container == self.container(scope)
    }

    /// Whether `unit` is a member that the viewing unit observes: a unit of the remote application other than
    /// itself.
    pub fn observes(&self, head: &RelationHead, unit: &UnitName) -> bool {
        unit.application == head.remote_application && *unit != self.doc.name
    }

    /// Whether a unit is Alive. Any other unit has departed in the views of all members, whatever its own agent does
    /// (spec E.2, *departing*).
    fn is_alive_member(&self, unit: Uuid) -> bool {
        effective_life::unit_life(&mut { self.reader }, self.model, unit) == Some(Life::Alive)
    }

    /// The scope document of a member, if the unit is in scope and Alive.
    pub fn member(&self, entry: ScopeEntry) -> Option<ScopeDoc> {
        let ScopeEntry { relation, container, unit } = entry;
        read(self.reader, &self.model.scope(relation, container, unit)).filter(|_| self.is_alive_member(unit))
    }

    /// The members in the visible container of a relation that are not Alive, or only `only` if it is one of
    /// them.
    pub fn departing_members(&self, head: &RelationHead, only: Option<Uuid>) -> Vec<ScopeEntry> {
        let container = self.container(head.scope);
        let all = match only {
            Some(unit) => {
                let document = self.reader.get(self.model.scope(head.uuid, container, unit).text());
                document.map(|_| unit).into_iter().collect()
            }
            None => (&mut { self.reader }).ids(&self.model.scopes_in(head.uuid, container), usize::MAX),
        };
        all.into_iter()
            .filter(|unit| !self.is_alive_member(*unit))
            .map(|unit| ScopeEntry { relation: head.uuid, container, unit })
            .collect()
    }

    /// A unit and its subordinates, or a machine with its units: their effective lives depend on that of `id`.
    pub fn with_dependents(&self, id: Uuid) -> Vec<Uuid> {
        let below = |prefix: &str| (&mut { self.reader }).ids(prefix, usize::MAX);
        [vec![id], below(&self.model.machine_units(id)), below(&self.model.subordinates(id))].concat()
    }

    /// Whether the unit sees the bag of this owner. `container` is that of the bag.
    pub fn sees_bag(&self, head: &RelationHead, owner: &Owner, container: Uuid) -> bool {
        match owner {
            Owner::Application(_) => true,
            Owner::Unit(unit) => {
                let includes_unit = *unit == self.doc.name || unit.application == head.remote_application;
                includes_unit && self.is_container_visible(head.scope, container)
            }
        }
    }

    /// A bag, if it is visible to the unit.
    pub fn bag(&self, relation: RelationNumber, head: &RelationHead, bag: BagDoc) -> Option<Change> {
        if !self.sees_bag(head, &bag.owner, bag.container) {
            return None;
        }
        let shown = Some(BagView::with_values(bag.counter, bag.values));
        Some(Change::Bag { relation, owner: bag.owner, bag: shown })
    }

    /// The bag of this owner. It is looked up by the UUID that has the owner's name now; the bag of a removed unit is
    /// found by scanning all bags of the relation.
    pub fn bag_of(
        &self,
        id: Uuid,
        number: RelationNumber,
        head: &RelationHead,
        owner: &Owner,
    ) -> Option<Change> {
        self.bag(number, head, self.stored_bag(id, head, owner)?)
    }

    /// The bag of this owner, whether or not it is visible to the unit.
    pub(crate) fn stored_bag(&self, id: Uuid, head: &RelationHead, owner: &Owner) -> Option<BagDoc> {
        let holder = match owner {
            Owner::Unit(unit) => read(self.reader, &self.model.unit_name(unit)),
            Owner::Application(name) if *name == self.doc.name.application => Some(self.doc.application),
            Owner::Application(_) => Some(head.remote_application_uuid),
        };
        let held = holder.and_then(|holder| read::<BagDoc>(self.reader, &self.model.bag(id, holder)));
        held.filter(|bag| bag.owner == *owner).or_else(|| {
            let all = read_all::<BagDoc>(self.reader, &self.model.bags(id));
            all.into_iter().map(|(_, bag)| bag).find(|bag| bag.owner == *owner)
        })
    }

    /// The members of a relation that the unit observes and that are Alive.
    pub fn members(&self, head: &RelationHead) -> Vec<ScopeDoc> {
        let present = read_all(self.reader, &self.model.scopes_in(head.uuid, self.container(head.scope)));
        let is_alive = |key: &str| last_id(key).is_some_and(|unit| self.is_alive_member(unit));
        let observed = present
            .into_iter()
            .filter(|(key, entry): &(String, ScopeDoc)| is_alive(key) && self.observes(head, &entry.unit));
        observed.map(|(_, entry)| entry).collect()
    }

    /// A relation with its members and bags: a relation that becomes visible is sent whole.
    pub fn full_relation(&self, id: Uuid, relation: &RelationDoc) -> Vec<Change> {
        let (number, head) = (relation.number, self.head(id, relation));
        let mut changes = vec![Change::Relation { relation: number, head: Some(head.clone()) }];
        for ScopeDoc { unit, incarnation, .. } in self.members(&head) {
            changes.push(Change::Member { relation: number, unit, incarnation: Some(incarnation) });
        }
        for (_, bag) in read_all::<BagDoc>(self.reader, &self.model.bags(id)) {
            changes.extend(self.bag(number, &head, bag));
        }
        changes
    }
}
