//! What agents are shown: one unit's view, whole (design 9), and a machine's. What changed in a unit's view is
//! [`crate::views::delta`].
//!
//! A unit sees the members of the other side of its relations (of a peer relation, the other members; of a container
//! relation, those in its own container), its own and its application's bag, and the bags of the remote application
//! and of those units, departed ones too; nothing else of anybody (I31).

use crate::documents::draft::{Reader, Revision, read, read_all};
use crate::documents::effective_life::{self, Documents};
use crate::documents::keys::{
    ActionDoc, ApplicationDoc, BagDoc, Model, OpenPortsDoc, RelationDoc, ScopeDoc, SessionDoc, UnitDoc,
    last_id, last_number,
};
use crate::lifecycle::{application, machine, relation};
use crate::views::inline_settings::{self, BYTES_MAX, BagSizes};

use crate::charm::Scope;
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::position::Position;
use crate::unit::snapshot::{
    ActionView, BagRequest, BagView, Change, CharmView, Delta, GrantView, ModelView, RelationHead, Snapshot,
    UnitView,
};
pub use crate::views::delta::{AffectedParts, delta, touched};
use std::collections::{BTreeMap, BTreeSet};

/// A whole view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The position's history is nil: a reader knows revisions only, the caller fills it in.
    pub delta: Delta,
    /// What comes along at most.
    bound: usize,
}

impl View {
    /// What deltas after it are compared with: for those who watch on.
    pub fn shown(&self) -> Shown {
        let snapshot = Snapshot::from_full(self.delta.clone()).expect("model, unit and charm are in it");
        Shown::of(&snapshot, self.bound)
    }
}

/// Of what a unit was shown, as much as [`crate::views::delta::delta`] compares with.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub model: ModelView,
    pub unit: UnitView,
    pub relations: BTreeMap<RelationNumber, RelationHead>,
    /// Who is shown to be in them, by incarnation.
    pub members: BTreeMap<(RelationNumber, UnitName), u64>,
    /// Other units of the machine that have open ports.
    pub units_with_ports: BTreeSet<UnitName>,
    /// Of all bags, those that were withheld too.
    pub sizes: BagSizes,
    /// What comes along at most.
    pub bound: usize,
}

impl Shown {
    pub fn of(snapshot: &Snapshot, bound: usize) -> Shown {
        let heads = snapshot.relations.iter().map(|(number, view)| (*number, view.head.clone()));
        let members = snapshot.relations.iter().flat_map(|(number, view)| {
            view.members.iter().map(|(unit, incarnation)| ((*number, unit.clone()), *incarnation))
        });
        Shown {
            members: members.collect(),
            model: snapshot.model.clone(),
            unit: snapshot.unit.clone(),
            relations: heads.collect(),
            units_with_ports: snapshot.machine_ports.keys().cloned().collect(),
            sizes: BagSizes::of(snapshot),
            bound,
        }
    }

    /// Takes what was sent.
    pub fn take(&mut self, changes: &[Change]) {
        self.sizes.take(changes);
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
                Change::Charm(_)
                | Change::Config(_)
                | Change::Leader(_)
                | Change::Resolved(_)
                | Change::Action { .. }
                | Change::Bag { .. }
                | Change::Status { .. }
                | Change::ApplicationStatus(_)
                | Change::Removed => {}
            }
        }
    }

    /// The relation of this uuid, if it is shown.
    pub(crate) fn relation(&self, id: Uuid) -> Option<(RelationNumber, &RelationHead)> {
        self.relations.iter().find(|(_, head)| head.uuid == id).map(|(number, head)| (*number, head))
    }
}

/// Everything one unit sees, as of the reader's revision; none for a unit that is not there (see [`existence`]).
pub fn full(reader: &dyn Reader, model: Model, unit: Uuid) -> Option<View> {
    full_view_within(reader, model, unit, BYTES_MAX)
}

/// The same, with so many bytes of settings at most: the tests' bound is lower.
pub fn full_view_within(reader: &dyn Reader, model: Model, unit: Uuid, bound: usize) -> Option<View> {
    let doc = read(reader, &model.unit(unit))?;
    let seen = Seen { reader, model, unit, doc: &doc };
    let mut changes = vec![
        Change::Model(crate::lifecycle::model::view(&mut { reader }, model)?),
        Change::Unit(seen.unit_view()?),
        Change::Charm(seen.charm()?),
        Change::Config(read(reader, &model.application_config(doc.application)).unwrap_or_default()),
        Change::Leader(seen.leader()),
        Change::Resolved(read(reader, &model.resolved(unit))),
        Change::ApplicationStatus(read(reader, &model.application_status(doc.application))),
    ];
    for (key, _) in read_all::<bool>(reader, &model.actions_of(unit)) {
        changes.extend(last_number(&key).map(|id| seen.action(id)));
    }
    let mut applications = BTreeSet::from([doc.application]);
    for (key, ()) in read_all(reader, &model.relations_of(doc.application)) {
        let id = last_id(&key)?;
        let relation = read(reader, &model.relation(id))?;
        if !relation::includes_unit(&relation, &doc) {
            continue;
        }
        applications.insert(relation.other_end(doc.application).application);
        changes.extend(seen.full_relation(id, &relation));
    }
    for (key, ()) in applications.iter().flat_map(|id| read_all::<()>(reader, &model.units_of(*id))) {
        changes.extend(last_id(&key).and_then(|id| seen.status(id)));
    }
    for (key, ports) in read_all::<OpenPortsDoc>(reader, &model.machine_ports_prefix(doc.machine)) {
        if last_id(&key) != Some(unit) {
            changes.push(Change::MachinePorts { unit: ports.unit, ports: ports.ports });
        }
    }
    let mut sizes = BagSizes::default();
    sizes.take(&changes);
    inline_settings::omit_values(&mut changes, &sizes.withheld(bound));
    let position = Position { store_generation: Uuid(0), revision: reader.revision() };
    Some(View { delta: Delta { position, full: true, changes }, bound })
}

/// One bag, if this unit sees it: what a watch shows, and no more (I31).
pub fn bag(reader: &dyn Reader, model: Model, unit: Uuid, asked: &BagRequest) -> Option<BagView> {
    let doc = read(reader, &model.unit(unit))?;
    let seen = Seen { reader, model, unit, doc: &doc };
    let relation: RelationDoc = read(reader, &model.relation(asked.relation))?;
    if !relation::includes_unit(&relation, &doc) {
        return None;
    }
    let head = seen.head(asked.relation, &relation);
    let shown = seen.bag_of(asked.relation, relation.number, &head, &asked.owner)?;
    if let Change::Bag { bag, .. } = shown { bag } else { None }
}

/// The documents as one unit sees them.
pub(crate) struct Seen<'a> {
    pub reader: &'a dyn Reader,
    pub model: Model,
    pub unit: Uuid,
    pub doc: &'a UnitDoc,
}

impl Seen<'_> {
    pub fn unit_view(&self) -> Option<UnitView> {
        let machine = read(self.reader, &self.model.machine(self.doc.machine))?;
        let (mut subordinates, mut departing_subordinates) = (BTreeSet::new(), BTreeSet::new());
        for (key, ()) in read_all::<()>(self.reader, &self.model.subordinates(self.unit)) {
            let id = last_id(&key)?;
            let unit = read(self.reader, &self.model.unit(id))?;
            if effective_life::unit_life_of(&mut { self.reader }, self.model, id, &unit) != Life::Alive {
                departing_subordinates.insert(unit.name.clone());
            }
            subordinates.insert(unit.name);
        }
        let principal = self.doc.principal.and_then(|id| read(self.reader, &self.model.unit(id)));
        Some(UnitView {
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
        })
    }

    pub fn charm(&self) -> Option<CharmView> {
        let (charm, declared) =
            application::charm_of(&mut { self.reader }, self.model, self.doc.application)?;
        Some(CharmView { charm, declared })
    }

    pub fn leader(&self) -> Option<GrantView> {
        let grant = read(self.reader, &self.model.leader(self.doc.application))?;
        Some(GrantView { holder: grant.holder_name, generation: grant.generation })
    }

    /// An action that waits or runs; one that ended is gone.
    pub fn action(&self, id: u64) -> Change {
        let begun = read(self.reader, &self.model.action_of(self.unit, id));
        let doc = read(self.reader, &self.model.action(id)).zip(begun);
        let shown =
            |(doc, running): (ActionDoc, bool)| ActionView { name: doc.name, running, params: doc.params };
        Change::Action { id, action: doc.map(shown) }
    }

    /// The workload status of a unit of an application this unit sees; the caller knows that it does.
    pub fn status(&self, id: Uuid) -> Option<Change> {
        let unit = read(self.reader, &self.model.unit(id))?.name;
        let status = read(self.reader, &self.model.unit_status(id))?;
        Some(Change::Status { unit, status: Some(status) })
    }

    pub fn head(&self, id: Uuid, relation: &RelationDoc) -> RelationHead {
        let own = relation.end_of(self.doc.application).expect("a relation's index is of its sides (I22)");
        let other = relation.other_end(self.doc.application);
        let creates_subordinate = relation
            .subordinate_link
            .is_some_and(|subordinate_link| subordinate_link.principal == self.doc.application);
        let session =
            creates_subordinate.then(|| read::<SessionDoc>(self.reader, &self.model.session(self.unit))).flatten();
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

    /// What lies in this container of a relation is shown.
    pub fn shows(&self, scope: Scope, container: Uuid) -> bool {
        container == self.container(scope)
    }

    /// The unit meets the units of this application, and never itself.
    pub fn observes(&self, head: &RelationHead, unit: &UnitName) -> bool {
        unit.application == head.remote_application && *unit != self.doc.name
    }

    /// Whoever is going has departed for all others, whatever its own agent does (spec E.2, *departing*).
    fn stays(&self, unit: Uuid) -> bool {
        effective_life::unit_life(&mut { self.reader }, self.model, unit) == Some(Life::Alive)
    }

    /// What of a member is shown, if it is one.
    pub fn member(&self, relation: Uuid, container: Uuid, unit: Uuid) -> Option<ScopeDoc> {
        read(self.reader, &self.model.scope(relation, container, unit)).filter(|_| self.stays(unit))
    }

    /// Those in the scope of a relation, where this unit is, that are going, or one of them: relation and container and
    /// unit, as in the key.
    pub fn going(&self, head: &RelationHead, only: Option<Uuid>) -> Vec<(Uuid, Uuid, Uuid)> {
        let container = self.container(head.scope);
        let all = match only {
            Some(unit) => {
                let there = self.reader.get(self.model.scope(head.uuid, container, unit).text());
                there.map(|_| unit).into_iter().collect()
            }
            None => (&mut { self.reader }).ids(&self.model.scopes_in(head.uuid, container), usize::MAX),
        };
        all.into_iter().filter(|unit| !self.stays(*unit)).map(|unit| (head.uuid, container, unit)).collect()
    }

    /// A unit and its subordinates, or the units on a machine and theirs: a life goes down to all of them.
    pub fn with(&self, id: Uuid) -> Vec<Uuid> {
        let below = |prefix: &str| (&mut { self.reader }).ids(prefix, usize::MAX);
        [vec![id], below(&self.model.machine_units(id)), below(&self.model.subordinates(id))].concat()
    }

    pub fn bag(&self, relation: RelationNumber, head: &RelationHead, bag: BagDoc) -> Option<Change> {
        let own = &self.doc.name;
        let owner = match bag.owner.parse::<UnitName>() {
            Ok(unit) => {
                let includes_unit = unit == *own || unit.application == head.remote_application;
                let seen = includes_unit && self.shows(head.scope, bag.container);
                seen.then_some(Owner::Unit(unit))?
            }
            Err(_) => Owner::Application(bag.owner),
        };
        let bag = Some(BagView::with_values(bag.counter, bag.values));
        Some(Change::Bag { relation, owner, bag })
    }

    /// The bag of this owner, by the uuid its name has now; of a unit that was removed, by looking through all.
    pub fn bag_of(
        &self,
        id: Uuid,
        number: RelationNumber,
        head: &RelationHead,
        owner: &Owner,
    ) -> Option<Change> {
        let (name, holder) = match owner {
            Owner::Unit(unit) => (unit.to_string(), read(self.reader, &self.model.unit_name(unit))),
            Owner::Application(name) if *name == self.doc.name.application => {
                (name.clone(), Some(self.doc.application))
            }
            Owner::Application(name) => (name.clone(), Some(head.remote_application_uuid)),
        };
        let held = holder.and_then(|holder| read::<BagDoc>(self.reader, &self.model.bag(id, holder)));
        let found = held.filter(|bag| bag.owner == name).or_else(|| {
            let all = read_all::<BagDoc>(self.reader, &self.model.bags(id));
            all.into_iter().map(|(_, bag)| bag).find(|bag| bag.owner == name)
        });
        self.bag(number, head, found?)
    }

    /// A relation with its members and bags: what becomes visible is sent whole.
    pub fn full_relation(&self, id: Uuid, relation: &RelationDoc) -> Vec<Change> {
        let (number, head) = (relation.number, self.head(id, relation));
        let mut changes = vec![Change::Relation { relation: number, head: Some(head.clone()) }];
        let members = self.model.scopes_in(id, self.container(relation.scope));
        for (key, entry) in read_all::<ScopeDoc>(self.reader, &members) {
            let stays = last_id(&key).is_some_and(|unit| self.stays(unit));
            if stays && self.observes(&head, &entry.unit) {
                let incarnation = Some(entry.incarnation);
                changes.push(Change::Member { relation: number, unit: entry.unit, incarnation });
            }
        }
        for (_, bag) in read_all::<BagDoc>(self.reader, &self.model.bags(id)) {
            changes.extend(self.bag(number, &head, bag));
        }
        changes
    }
}

/// What a machine's agent is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    pub revision: Revision,
    pub life: Life,
    pub name: String,
    pub address: String,
    pub units: BTreeMap<Uuid, Assigned>,
}

/// One unit of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub name: UnitName,
    /// Effective life. Dying and never attached: to be removed without an agent started for it (spec F.2).
    pub life: Life,
    /// An agent has spoken for it at some time.
    pub attached: bool,
}

/// The machine and its units as of the reader's revision; none for a machine that is not there.
pub fn machine(reader: &dyn Reader, model: Model, id: Uuid) -> Option<MachineView> {
    let doc = read(reader, &model.machine(id))?;
    let life = read(reader, &model.machine_life(id))?;
    let mut units = BTreeMap::new();
    for (key, ()) in read_all(reader, &model.machine_units(id)) {
        let unit = last_id(&key)?;
        let doc = read(reader, &model.unit(unit))?;
        let life = effective_life::unit_life_of(&mut { reader }, model, unit, &doc);
        let attached = read(reader, &model.session(unit)).is_some();
        units.insert(unit, Assigned { name: doc.name, life, attached });
    }
    Some(MachineView { revision: reader.revision(), life, name: doc.name, address: doc.address, units })
}

/// What is known of a uuid (design 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It is there; of units and relations the effective life.
    Known(Life),
    /// It was removed: positive evidence.
    Tombstone,
    /// Nothing is known: never a reason to tear down.
    Unknown,
}

/// The existence of a unit, machine, application or relation.
pub fn existence(reader: &dyn Reader, model: Model, id: Uuid) -> Existence {
    let life = effective_life::unit_life(&mut { reader }, model, id)
        .or_else(|| read(reader, &model.machine_life(id)))
        .or_else(|| {
            read::<ApplicationDoc>(reader, &model.application(id))
                .and(read(reader, &model.application_life(id)))
        })
        .or_else(|| effective_life::relation_life(&mut { reader }, model, id));
    match life {
        Some(life) => Existence::Known(life),
        None if read(reader, &model.tombstone(id)).is_some() => Existence::Tombstone,
        None => Existence::Unknown,
    }
}
