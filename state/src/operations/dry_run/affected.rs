//! Who and what is looked at, within bounds.

use crate::documents::blockers::EntityId;
use crate::documents::draft::{Reader, read};
use crate::documents::effective_life;
use crate::documents::keys::{Model, RelationDoc, UnitDoc, last_id};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// Entities of each kind that are looked at, three times: some 10 reads each.
pub(crate) const ENTITIES_MAX: usize = 500;
/// Entries of indexes that are read to find these: some 100 bytes each.
const ENTRIES_MAX: usize = 5_000;

pub(crate) fn id_of(entity: EntityId) -> Uuid {
    match entity {
        EntityId::Unit(id) | EntityId::Application(id) | EntityId::Relation(id) | EntityId::Machine(id) => id,
    }
}

/// The name of what is still there.
pub(crate) fn name(reader: &dyn Reader, model: Model, entity: EntityId) -> Option<String> {
    Some(match entity {
        EntityId::Unit(id) => format!("unit {}", read(reader, &model.unit(id))?.name),
        EntityId::Application(id) => format!("application {}", read(reader, &model.application(id))?.name),
        EntityId::Relation(id) => format!("relation {}", read(reader, &model.relation(id))?.key_text()),
        EntityId::Machine(id) => format!("machine {}", read(reader, &model.machine(id))?.name),
    })
}

/// Entities and their effective lives, by name.
pub(crate) type Lives = BTreeMap<String, (EntityId, Life)>;

/// What a removal can reach: found before it is played, since a play adds nothing.
#[derive(Default)]
pub(crate) struct AffectedEntities {
    pub(crate) units: BTreeMap<Uuid, UnitDoc>,
    pub(crate) applications: BTreeSet<Uuid>,
    relations: BTreeSet<Uuid>,
    pub(crate) machines: BTreeSet<Uuid>,
    members: BTreeMap<Uuid, Vec<Uuid>>,
    entries: usize,
    pub(crate) more: bool,
}

impl AffectedEntities {
    /// From what is removed to whom it meets, and from these on again: whoever meets a subordinate that goes because
    /// its relation does is the furthest.
    pub(crate) fn of(reader: &dyn Reader, model: Model, entities: &[EntityId]) -> AffectedEntities {
        let mut near = AffectedEntities::default();
        for entity in entities {
            match *entity {
                EntityId::Unit(id) => near.unit(reader, model, id),
                EntityId::Application(id) => {
                    near.applications.insert(id);
                    for unit in near.ids(reader, &model.units_of(id)) {
                        near.unit(reader, model, unit);
                    }
                    near.relations(reader, &model.relations_of(id));
                }
                EntityId::Relation(id) => {
                    near.relations.insert(id);
                    near.brought(reader, model, id);
                }
                EntityId::Machine(id) => {
                    near.machines.insert(id);
                    for unit in near.ids(reader, &model.machine_units(id)) {
                        near.unit(reader, model, unit);
                    }
                }
            }
        }
        for _ in 0..2 {
            for unit in near.units.keys().copied().collect::<Vec<_>>() {
                for subordinate in near.ids(reader, &model.subordinates(unit)) {
                    near.unit(reader, model, subordinate);
                }
                near.relations(reader, &model.scopes_of(unit));
            }
            for relation in near.relations.clone() {
                if near.members.contains_key(&relation) {
                    continue;
                }
                let members = near.ids(reader, &model.scopes(relation));
                for unit in &members {
                    near.unit(reader, model, *unit);
                }
                near.members.insert(relation, members);
                let sides = read(reader, &model.relation(relation)).map(|doc: RelationDoc| doc.sides);
                near.applications.extend(sides.into_iter().flatten().map(|side| side.application));
            }
        }
        near
    }

    /// The subordinates that came with a relation: they go with it, in its scope or not.
    fn brought(&mut self, reader: &dyn Reader, model: Model, id: Uuid) {
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

    /// The entities an index names, as long as there is room.
    fn ids(&mut self, reader: &dyn Reader, prefix: &str) -> Vec<Uuid> {
        let room = ENTRIES_MAX - self.entries;
        let mut found = reader.scan(prefix, "", room + 1);
        self.more |= found.len() > room;
        found.truncate(room);
        self.entries += found.len();
        found.iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    fn unit(&mut self, reader: &dyn Reader, model: Model, id: Uuid) {
        if self.units.contains_key(&id) {
            return;
        }
        if self.units.len() == ENTITIES_MAX {
            self.more = true;
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
                self.more |= !self.relations.contains(&id);
            }
        }
    }

    /// The effective life of each.
    pub(crate) fn lives(&self, reader: &dyn Reader, model: Model) -> Lives {
        let mut lives = BTreeMap::new();
        let mut is = |entity: EntityId, life: Option<Life>| {
            lives.extend(name(reader, model, entity).zip(life.map(|life| (entity, life))));
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

    /// The unit is one of these, or of one of these, or beside one.
    pub(crate) fn is_removed_with(&self, id: Uuid, going: &[EntityId]) -> bool {
        let Some(doc) = self.units.get(&id) else { return false };
        let of = [EntityId::Unit(id), EntityId::Application(doc.application), EntityId::Machine(doc.machine)];
        of.into_iter().chain(doc.principal.map(EntityId::Unit)).any(|one| going.contains(&one))
    }

    /// Whose agents owe something before what is `going` has gone: machines, then units that have lived.
    pub(crate) fn needed(&self, after: &dyn Reader, model: Model, going: &[EntityId]) -> Vec<EntityId> {
        let leaves = |id: &Uuid| {
            let relations =
                self.members.iter().filter(|(relation, _)| going.contains(&EntityId::Relation(**relation)));
            relations.flat_map(|(_, members)| members).any(|member| member == id)
        };
        let goes = |(id, _): &(&Uuid, &UnitDoc)| self.is_removed_with(**id, going);
        let there = |id: &Uuid| read(after, &model.unit(*id)).is_some();
        let ends: Vec<(&Uuid, &UnitDoc)> =
            self.units.iter().filter(goes).filter(|(id, _)| there(id)).collect();
        let mut machines: BTreeSet<Uuid> = ends.iter().map(|(_, doc)| doc.machine).collect();
        machines.extend(self.machines.iter().filter(|id| going.contains(&EntityId::Machine(**id))));
        let has_attached_unit = |id: &Uuid| {
            read(after, &model.session(*id)).is_some()
                && read(after, &model.unit_life(*id)) != Some(Life::Dead)
        };
        let units = self.units.keys().filter(|id| leaves(id) || ends.iter().any(|(end, _)| end == id));
        let units = units.filter(|id| has_attached_unit(id)).copied().map(EntityId::Unit);
        machines.into_iter().map(EntityId::Machine).chain(units).collect()
    }

    /// Units that go, and those that are in a relation that goes or with a unit that goes, by name.
    pub(crate) fn concerned(&self, after: &dyn Reader, model: Model) -> Vec<Uuid> {
        let ends = |life: Option<Life>| life.is_none_or(|life| life != Life::Alive);
        let goes = |id: &Uuid| ends(effective_life::unit_life(&mut { after }, model, *id));
        let going: BTreeSet<Uuid> = self.units.keys().copied().filter(goes).collect();
        let mut all = going.clone();
        for (id, members) in &self.members {
            let ended = ends(effective_life::relation_life(&mut { after }, model, *id));
            if ended || members.iter().any(|member| going.contains(member)) {
                all.extend(members);
            }
        }
        let mut named: Vec<(&UnitName, Uuid)> =
            self.units.iter().filter(|(id, _)| all.contains(id)).map(|(id, doc)| (&doc.name, *id)).collect();
        named.sort();
        named.into_iter().map(|(_, id)| id).collect()
    }
}
