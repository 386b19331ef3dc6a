//! A removal foretold: what would go at once, what would be Dying, which hooks would run on which unit, in order, and
//! what would hold it up. Nothing is kept: the real transitions, and the agents' real decision with every hook a
//! success, are played on top of the documents.

use super::blockers::{Entity, blockers};
use super::draft::{Draft, Reader, Revision, Stored, read, read_all};
use super::effective;
use super::hook_commit;
use super::keys::{Model, RelationDoc, UnitDoc, last_id};
use super::refusal::{Blocker, Refusal};
use super::text::Text;
use super::{application, machine, relation, unit, view};
use crate::life::Life;
use crate::names::{UnitName, Uuid};
use crate::unit::forecast::{Ahead, ahead};
use crate::unit::operation::Operation;
use crate::unit::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Units that are played; of more, the first by name. A play is some 10 reads and a view for each hook.
const UNITS_MAX: usize = 40;
/// Steps of a play: 40 units with some 25 hooks each.
const STEPS_MAX: usize = 1_000;
/// Entities named in each list.
const NAMED_MAX: usize = 200;

/// What a removal would come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Gone with the removal itself: `unit web/0`.
    pub at_once: Vec<String>,
    /// Dying with it.
    pub dying: Vec<String>,
    /// In the order in which they would run: the unit, and its hook.
    pub hooks: Vec<(UnitName, String)>,
    /// Gone when all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would hold up the rest.
    pub blocked: Vec<Blocker>,
}

/// Documents with changes on top that nobody has made.
struct Played<'r> {
    under: &'r dyn Reader,
    changes: BTreeMap<String, Option<Text>>,
}

impl Reader for Played<'_> {
    fn revision(&self) -> Revision {
        self.under.revision()
    }

    fn get(&self, key: &str) -> Option<Stored> {
        match self.changes.get(key) {
            Some(changed) => self.stored(key, changed.as_ref()?),
            None => self.under.get(key),
        }
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<Stored> {
        let within = |key: &str| key.starts_with(prefix) && key > after;
        let changes: BTreeMap<&String, &Option<Text>> =
            self.changes.iter().filter(|(key, _)| within(key)).collect();
        let removed = changes.values().filter(|value| value.is_none()).count();
        let under = self.under.scan(prefix, after, limit.saturating_add(removed));
        let mut all: BTreeMap<String, Stored> =
            under.into_iter().map(|stored| (stored.key.clone(), stored)).collect();
        for (key, value) in changes {
            match value {
                Some(value) => all.extend(self.stored(key, value).map(|stored| (key.clone(), stored))),
                None => {
                    all.remove(key);
                }
            }
        }
        all.into_values().take(limit).collect()
    }
}

impl Played<'_> {
    fn stored(&self, key: &str, value: &Text) -> Option<Stored> {
        Some(Stored { key: key.to_owned(), revision: self.under.revision(), value: value.clone() })
    }

    fn run<T>(&mut self, play: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut draft = Draft::new(self);
        let answer = play(&mut draft)?;
        // what no transaction could hold is not played; the removal itself is bounded
        if let Ok(txn) = draft.finish() {
            self.changes.extend(txn.writes);
        }
        Ok(answer)
    }
}

/// What removing `entities` together would come to; refused like the removal itself.
pub fn forecast(reader: &dyn Reader, model: Model, entities: &[Entity]) -> Result<Forecast, Refusal> {
    let mut played = Played { under: reader, changes: BTreeMap::new() };
    for entity in entities {
        played.run(|draft| match *entity {
            Entity::Unit(id) => unit::destroy(draft, model, id).map(drop),
            Entity::Application(id) => application::destroy(draft, model, id).map(drop),
            Entity::Relation(id) => relation::destroy(draft, model, id).map(drop),
            Entity::Machine(id) => machine::destroy(draft, model, id),
        })?;
    }
    let before = lives(reader, model);
    let after = lives(&played, model);
    let gone = |then: &BTreeMap<String, Life>| {
        let gone = before.keys().filter(|name| !then.contains_key(*name));
        gone.take(NAMED_MAX).cloned().collect::<Vec<_>>()
    };
    let newly =
        |(name, life): &(&String, &Life)| **life != Life::Alive && before.get(*name) == Some(&Life::Alive);
    let asked: BTreeSet<String> =
        entities.iter().filter_map(|entity| name(&played, model, *entity)).collect();
    let is_dying = |one: &(&String, &Life)| newly(one) || asked.contains(one.0);
    let dying = after.iter().filter(is_dying).map(|(name, _)| name.clone()).take(NAMED_MAX).collect();
    let mut forecast = Forecast { at_once: gone(&after), dying, ..Forecast::default() };
    let units = concerned(reader, &played, model);
    play(&mut played, model, &units, &mut forecast);
    let end = gone(&lives(&played, model));
    forecast.gone = end.into_iter().filter(|name| !forecast.at_once.contains(name)).collect();
    for entity in entities {
        forecast.blocked.extend(blockers(&mut (&played as &dyn Reader), model, *entity));
    }
    let mut told = BTreeSet::new();
    forecast.blocked.retain(|one| told.insert((one.entity.clone(), one.duty.clone(), one.owner.clone())));
    Ok(forecast)
}

/// The name of what is still there.
fn name(reader: &dyn Reader, model: Model, entity: Entity) -> Option<String> {
    Some(match entity {
        Entity::Unit(id) => format!("unit {}", read(reader, &model.unit(id))?.name),
        Entity::Application(id) => format!("application {}", read(reader, &model.application(id))?.name),
        Entity::Relation(id) => format!("relation {}", read(reader, &model.relation(id))?.key_text()),
        Entity::Machine(id) => format!("machine {}", read(reader, &model.machine(id))?.name),
    })
}

/// The effective life of everything, by its name.
fn lives(reader: &dyn Reader, model: Model) -> BTreeMap<String, Life> {
    let ids = |kind: &str| -> Vec<Uuid> {
        let all = reader.scan(&model.all(kind), "", usize::MAX);
        all.iter().filter_map(|stored| last_id(&stored.key)).collect()
    };
    let mut lives = BTreeMap::new();
    let mut is = |entity: Entity, life: Option<Life>| {
        lives.extend(name(reader, model, entity).zip(life));
    };
    for id in ids("unit") {
        is(Entity::Unit(id), effective::unit_life(&mut { reader }, model, id));
    }
    for id in ids("application") {
        is(Entity::Application(id), read(reader, &model.application_life(id)));
    }
    for id in ids("relation") {
        is(Entity::Relation(id), effective::relation_life(&mut { reader }, model, id));
    }
    for id in ids("machine") {
        is(Entity::Machine(id), read(reader, &model.machine_life(id)));
    }
    lives
}

/// Units that go, and those that are in a relation that goes or with a unit that goes, by name.
fn concerned(before: &dyn Reader, after: &dyn Reader, model: Model) -> Vec<Uuid> {
    let units: Vec<(Uuid, UnitDoc)> = read_all::<UnitDoc>(before, &model.all("unit"))
        .into_iter()
        .filter_map(|(key, doc)| Some((last_id(&key)?, doc)))
        .collect();
    let goes = |id: Uuid| {
        let life = |reader: &dyn Reader| effective::unit_life(&mut { reader }, model, id);
        life(after).is_none_or(|life| life != Life::Alive)
    };
    let going: BTreeSet<Uuid> = units.iter().map(|(id, _)| *id).filter(|id| goes(*id)).collect();
    let mut all = going.clone();
    for (key, _) in read_all::<RelationDoc>(before, &model.all("relation")) {
        let Some(id) = last_id(&key) else { continue };
        let ends = effective::relation_life(&mut { after }, model, id).is_none_or(|life| life != Life::Alive);
        let scopes = before.scan(&model.scopes(id), "", usize::MAX);
        let members: Vec<Uuid> = scopes.iter().filter_map(|stored| last_id(&stored.key)).collect();
        if ends || members.iter().any(|member| going.contains(member)) {
            all.extend(members);
        }
    }
    let mut named: Vec<(&UnitName, Uuid)> =
        units.iter().filter(|(id, _)| all.contains(id)).map(|(id, doc)| (&doc.name, *id)).collect();
    named.sort();
    named.into_iter().map(|(_, id)| id).take(UNITS_MAX).collect()
}

/// Each unit in turn does what its agent would, and its machine agent after it, until nobody does anything more.
fn play(played: &mut Played<'_>, model: Model, units: &[Uuid], forecast: &mut Forecast) {
    for _ in 0..STEPS_MAX {
        let mut moved = false;
        for id in units {
            moved |= step(played, model, *id, forecast);
        }
        if !moved {
            return;
        }
    }
}

/// True if it did something.
fn step(played: &mut Played<'_>, model: Model, id: Uuid, forecast: &mut Forecast) -> bool {
    let Some(doc) = read(played as &dyn Reader, &model.unit(id)) else {
        return false;
    };
    if played.run(|draft| unit::remove(draft, model, id)).is_ok() {
        return true;
    }
    let reader: &dyn Reader = played;
    let (session, replica) = (read(reader, &model.session(id)), read(reader, &model.replica(id)));
    let (Some(session), Some(mut replica)) = (session, replica) else {
        return false;
    };
    let Some(shown) = view::full_within(reader, model, id, usize::MAX) else {
        return false;
    };
    let view = Snapshot::from_full(shown.delta).expect("a whole view");
    // the controller keeps no history's name: that of the view is the unit's
    replica.local.history = Some(view.position.history);
    let Ahead::Does(record) = ahead(&mut replica.local, &view) else {
        return false;
    };
    let committed = played.run(|draft| {
        // a play adds nothing: who would have to be made is nobody
        hook_commit::commit(draft, model, id, session.epoch, &record, &mut || Uuid(0))
    });
    let done = committed.is_ok_and(|committed| committed.refusal.is_none());
    if let (true, Operation::Hook(_)) = (done, &record.operation) {
        forecast.hooks.push((doc.name, said(&record.operation)));
    }
    done
}

/// `db-relation-departed db:1 db/0 departing=db/0`.
fn said(operation: &Operation) -> String {
    let text = operation.to_string();
    text.strip_prefix("hook ").unwrap_or(&text).to_owned()
}
