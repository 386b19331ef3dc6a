//! The entities that a removal can affect, collected within limits.
//!
//! They are collected before the simulation, because a simulation adds no entity. [`AffectedEntities::collect`]
//! reports by `truncated` that a limit was reached. Called by the dry run only.

use crate::documents::attachment::{Attachment, attachment};
use crate::documents::blockers::EntityId;
use crate::documents::draft::{Reader, read};
use crate::documents::effective_life;
use crate::documents::prelude::{Model, RelationDoc, UnitDoc, last_id};
use crate::terms::cause::Entity;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of entities of each kind, each of which is read three times with some 10 reads.
pub(crate) const ENTITIES_MAX: usize = 500;
/// The maximum number of index entries that are read to collect them, of some 100 bytes each.
const ENTRIES_MAX: usize = 5_000;

pub(crate) fn id_of(entity: EntityId) -> Uuid {
    match entity {
        EntityId::Unit(id) | EntityId::Application(id) | EntityId::Relation(id) | EntityId::Machine(id) => id,
    }
}

/// The kind and name of an entity, if it exists.
pub(crate) fn name(reader: &dyn Reader, model: Model, entity: EntityId) -> Option<Entity> {
    Some(match entity {
        EntityId::Unit(id) => Entity::Unit(read(reader, &model.unit(id))?.name),
        EntityId::Application(id) => Entity::Application(read(reader, &model.application(id))?.name),
        EntityId::Relation(id) => Entity::Relation(read(reader, &model.relation(id))?.name()),
        EntityId::Machine(id) => Entity::Machine(read(reader, &model.machine(id))?.name),
    })
}

/// An entity and its effective life.
pub(crate) struct EntityLife {
    pub(crate) id: EntityId,
    pub(crate) life: Life,
}

/// The effective lives of entities, by their names.
pub(crate) type Lives = BTreeMap<Entity, EntityLife>;

/// The entities that a removal can affect.
#[derive(Default)]
pub(crate) struct AffectedEntities {
    pub(crate) units: BTreeMap<Uuid, UnitDoc>,
    pub(crate) applications: BTreeSet<Uuid>,
    relations: BTreeSet<Uuid>,
    pub(crate) machines: BTreeSet<Uuid>,
    members: BTreeMap<Uuid, Vec<Uuid>>,
    entries: usize,
    pub(crate) truncated: bool,
}

impl AffectedEntities {
    /// Collects the removed entities, the units with which they share relations, and in a second pass the units with
    /// which those share relations: the farthest affected unit is a member of a relation of a subordinate that is
    /// removed with its subordinate link.
    pub(crate) fn collect(reader: &dyn Reader, model: Model, entities: &[EntityId]) -> AffectedEntities {
        let mut affected = AffectedEntities::default();
        for entity in entities {
            match *entity {
                EntityId::Unit(id) => affected.unit(reader, model, id),
                EntityId::Application(id) => {
                    affected.applications.insert(id);
                    for unit in affected.ids(reader, &model.units_of(id)) {
                        affected.unit(reader, model, unit);
                    }
                    affected.relations(reader, &model.relations_of(id));
                }
                EntityId::Relation(id) => {
                    affected.relations.insert(id);
                    affected.add_subordinates(reader, model, id);
                }
                EntityId::Machine(id) => {
                    affected.machines.insert(id);
                    for unit in affected.ids(reader, &model.machine_units(id)) {
                        affected.unit(reader, model, unit);
                    }
                }
            }
        }
        for _ in 0..2 {
            for unit in affected.units.keys().copied().collect::<Vec<_>>() {
                for subordinate in affected.ids(reader, &model.subordinates(unit)) {
                    affected.unit(reader, model, subordinate);
                }
                affected.relations(reader, &model.scopes_of(unit));
            }
            for relation in affected.relations.clone() {
                if affected.members.contains_key(&relation) {
                    continue;
                }
                let members = affected.ids(reader, &model.scopes(relation));
                for unit in &members {
                    affected.unit(reader, model, *unit);
                }
                affected.members.insert(relation, members);
                let ends = read(reader, &model.relation(relation)).map(|doc: RelationDoc| doc.ends);
                affected.applications.extend(ends.into_iter().flatten().map(|end| end.application));
            }
        }
        affected
    }

    /// Adds the subordinates that a relation created. They are removed with it, whether they are in its scope
    /// or not.
    fn add_subordinates(&mut self, reader: &dyn Reader, model: Model, id: Uuid) {
        let subordinate_link =
            read(reader, &model.relation(id)).and_then(|doc: RelationDoc| doc.subordinate_link);
        let Some(subordinate_link) = subordinate_link else { return };
        for unit in self.ids(reader, &model.units_of(subordinate_link.subordinate)) {
            if read(reader, &model.unit(unit))
                .is_some_and(|doc| doc.subordinate_link == Some(subordinate_link))
            {
                self.unit(reader, model, unit);
            }
        }
    }

    /// The entities of an index, until the limit of entries is reached.
    fn ids(&mut self, reader: &dyn Reader, prefix: &str) -> Vec<Uuid> {
        let room = ENTRIES_MAX - self.entries;
        let mut found = reader.scan(prefix, "", room + 1);
        self.truncated |= found.len() > room;
        found.truncate(room);
        self.entries += found.len();
        found.iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    fn unit(&mut self, reader: &dyn Reader, model: Model, id: Uuid) {
        if self.units.contains_key(&id) {
            return;
        }
        if self.units.len() == ENTITIES_MAX {
            self.truncated = true;
            return;
        }
        let Some(doc) = read(reader, &model.unit(id)) else { return };
        self.applications.insert(doc.application);
        self.machines.insert(doc.machine);
        self.units.insert(id, doc);
    }

    fn relations(&mut self, reader: &dyn Reader, prefix: &str) {
        for id in self.ids(reader, prefix) {
            if self.relations.len() < ENTITIES_MAX {
                self.relations.insert(id);
            } else {
                self.truncated |= !self.relations.contains(&id);
            }
        }
    }

    /// The effective life of each collected entity that exists.
    pub(crate) fn lives(&self, reader: &dyn Reader, model: Model) -> Lives {
        let mut lives = BTreeMap::new();
        let mut is = |id: EntityId, life: Option<Life>| {
            lives.extend(name(reader, model, id).zip(life.map(|life| EntityLife { id, life })));
        };
        for id in self.units.keys() {
            is(EntityId::Unit(*id), effective_life::unit_life(&mut { reader }, model, *id));
        }
        for id in &self.applications {
            is(EntityId::Application(*id), read(reader, &model.application_life(*id)));
        }
        for id in &self.relations {
            is(EntityId::Relation(*id), effective_life::relation_life(&mut { reader }, model, *id));
        }
        for id in &self.machines {
            is(EntityId::Machine(*id), read(reader, &model.machine_life(*id)));
        }
        lives
    }

    /// Whether the unit is one of `departing`, belongs to an application or machine of `departing`, or is a subordinate
    /// of one.
    pub(crate) fn is_removed_with(&self, id: Uuid, departing: &[EntityId]) -> bool {
        let Some(doc) = self.units.get(&id) else { return false };
        let owners =
            [EntityId::Unit(id), EntityId::Application(doc.application), EntityId::Machine(doc.machine)];
        owners.into_iter().chain(doc.principal.map(EntityId::Unit)).any(|entity| departing.contains(&entity))
    }

    /// The machines and attached units whose agents must act before the entities in `departing` are removed:
    /// machines first.
    pub(crate) fn required_agents(
        &self,
        after: &dyn Reader,
        model: Model,
        departing: &[EntityId],
    ) -> Vec<EntityId> {
        let leaves = |id: &Uuid| {
            let relations = self
                .members
                .iter()
                .filter(|(relation, _)| departing.contains(&EntityId::Relation(**relation)));
            relations.flat_map(|(_, members)| members).any(|member| member == id)
        };
        let is_departing = |(id, _): &(&Uuid, &UnitDoc)| self.is_removed_with(**id, departing);
        let there = |id: &Uuid| read(after, &model.unit(*id)).is_some();
        let ends: Vec<(&Uuid, &UnitDoc)> =
            self.units.iter().filter(is_departing).filter(|(id, _)| there(id)).collect();
        let mut machines: BTreeSet<Uuid> = ends.iter().map(|(_, doc)| doc.machine).collect();
        machines.extend(self.machines.iter().filter(|id| departing.contains(&EntityId::Machine(**id))));
        let must_act = |id: &Uuid| {
            attachment(&mut { after }, model, *id) != Attachment::Never
                && read(after, &model.unit_life(*id)) != Some(Life::Dead)
        };
        let units = self.units.keys().filter(|id| leaves(id) || ends.iter().any(|(end, _)| end == id));
        let units = units.filter(|id| must_act(id)).copied().map(EntityId::Unit);
        machines.into_iter().map(EntityId::Machine).chain(units).collect()
    }

    /// The units that are not Alive, and those that share a relation with such a unit or are in a relation that
    /// is not Alive; by name.
    pub(crate) fn affected_units(&self, after: &dyn Reader, model: Model) -> Vec<Uuid> {
        let ends = |life: Option<Life>| life.is_none_or(|life| life != Life::Alive);
        let is_departing = |id: &Uuid| ends(effective_life::unit_life(&mut { after }, model, *id));
        let departing: BTreeSet<Uuid> = self.units.keys().copied().filter(is_departing).collect();
        let mut all = departing.clone();
        for (id, members) in &self.members {
            let ended = ends(effective_life::relation_life(&mut { after }, model, *id));
            if ended || members.iter().any(|member| departing.contains(member)) {
                all.extend(members);
            }
        }
        let mut named: Vec<(&UnitName, Uuid)> =
            self.units.iter().filter(|(id, _)| all.contains(id)).map(|(id, doc)| (&doc.name, *id)).collect();
        named.sort();
        named.into_iter().map(|(_, id)| id).collect()
    }
}
