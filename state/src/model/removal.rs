//! A removal foretold: what would go at once, what would be Dying, which hooks would run on which unit, in order, and
//! what would hold it up. Nothing is kept: the real transitions, and the agents' real decision with every hook a
//! success, are played on top of the documents.

use super::blockers::{BLOCKERS_MAX, Entity, blockers};
use super::draft::{Draft, Reader, Revision, Stored, read};
use super::effective;
use super::force::{self, Force};
use super::hook_commit;
use super::keys::{Model, RelationDoc, UnitDoc, last_id};
use super::refusal::{Blocker, Refusal};
use super::text::Text;
use super::{application, machine, relation, unit, view};
use crate::life::Life;
use crate::names::{UnitName, Uuid};
use crate::unit::forecast::{Ahead, ahead};
use crate::unit::operation::Operation;
use crate::unit::outcome::executing;
use crate::unit::record::Record;
use crate::unit::snapshot::Snapshot;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Units that are played; of more, the first by name. A play is some 10 reads and a view for each hook.
const UNITS_MAX: usize = 40;
/// Steps of a play, and as many looks that find nothing to do: 40 units with some 25 hooks each.
const STEPS_MAX: usize = 2_000;
/// Documents a play reads: 1,000 hooks in views of some 200. One that is over it ends with the step it is in.
const READ_MAX: usize = 200_000;
/// Rounds of bites by force: a unit takes some ten, with its scopes three at a time and its subordinates before it.
const BITES_MAX: usize = 40;
/// Entities of each kind that are looked at, three times: some 10 reads each.
const LOOKED_AT_MAX: usize = 500;
/// Entries of indexes that are read to find these: some 100 bytes each.
const ENTRIES_MAX: usize = 5_000;
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
    /// Those of units that force removes at once: they run only if their agents are quicker.
    pub left_out: Vec<(UnitName, String)>,
    /// Gone when all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would hold up the rest.
    pub blocked: Vec<Blocker>,
    /// Machines and units that it waits for and whose agents are not heard of; by force it does not wait for them.
    pub silent: Vec<Entity>,
    /// A bound was met: there is more of the above.
    pub more: bool,
}

/// Documents with changes on top that nobody has made.
struct Played<'r> {
    under: &'r dyn Reader,
    changes: BTreeMap<String, Option<Text>>,
    /// Documents that were read.
    read: Cell<usize>,
}

impl Reader for Played<'_> {
    fn revision(&self) -> Revision {
        self.under.revision()
    }

    fn get(&self, key: &str) -> Option<Stored> {
        self.read.set(self.read.get() + 1);
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
        self.read.set(self.read.get() + under.len());
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

impl<'r> Played<'r> {
    fn on(under: &'r dyn Reader) -> Played<'r> {
        Played { under, changes: BTreeMap::new(), read: Cell::new(0) }
    }

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

/// What is known of agents beside the documents.
pub struct Heard<'a> {
    /// The agent of this unit or machine has not been heard of for too long.
    pub silent: &'a dyn Fn(Entity) -> bool,
    /// What this unit's agent says that it runs: `running install hook`.
    pub running: &'a dyn Fn(Uuid) -> Option<String>,
}

/// What removing `entities` together would come to, by force if that is given; refused like the removal itself.
pub fn forecast(
    reader: &dyn Reader,
    model: Model,
    asked: (&[Entity], Option<Force>),
    heard: &Heard<'_>,
) -> Result<Forecast, Refusal> {
    forecast_within(reader, model, asked, (heard, READ_MAX))
}

/// The same, with so many documents read at most: the tests' bound is lower.
pub(super) fn forecast_within(
    reader: &dyn Reader,
    model: Model,
    (entities, force): (&[Entity], Option<Force>),
    (heard, bound): (&Heard<'_>, usize),
) -> Result<Forecast, Refusal> {
    let near = Near::of(reader, model, entities);
    let mut played = Played::on(reader);
    // of more, and beyond the bound, what runs is left as it is: each is a whole view
    let running: Vec<(Uuid, String)> =
        near.units.keys().filter_map(|id| Some((*id, (heard.running)(*id)?))).take(UNITS_MAX).collect();
    for (id, what) in running {
        if played.read.get() <= bound {
            end_running(&mut played, model, id, &what);
        }
    }
    played.read.set(0);
    let begun = played.changes.clone();
    for entity in entities {
        played.run(|draft| match (*entity, force) {
            (Entity::Unit(id), None) => unit::destroy(draft, model, id).map(drop),
            (Entity::Unit(id), Some(force)) => force::unit(draft, model, id, force).map(drop),
            (Entity::Application(id), None) => application::destroy(draft, model, id).map(drop),
            (Entity::Application(id), Some(force)) => force::application(draft, model, id, force).map(drop),
            (Entity::Relation(id), None) => relation::destroy(draft, model, id).map(drop),
            (Entity::Relation(id), Some(force)) => force::relation(draft, model, id, force).map(drop),
            (Entity::Machine(id), None) => machine::destroy(draft, model, id),
            (Entity::Machine(id), Some(force)) => force::machine(draft, model, id, force),
        })?;
    }
    let before = near.lives(reader, model);
    let after = near.lives(&played, model);
    let gone = |then: &Lives| -> Vec<String> {
        before.keys().filter(|name| !then.contains_key(*name)).cloned().collect()
    };
    let was_alive = |name: &String| before.get(name).is_some_and(|(_, life)| *life == Life::Alive);
    let is_dying = |(name, (_, life)): &(&String, &(Entity, Life))| *life != Life::Alive && was_alive(name);
    let (dying, mut going): (Vec<String>, Vec<Entity>) =
        after.iter().filter(is_dying).map(|(name, (entity, _))| (name.clone(), *entity)).unzip();
    let newly: BTreeSet<UnitName> =
        going.iter().filter_map(|one| near.units.get(&id_of(*one))).map(|doc| doc.name.clone()).collect();
    going.extend(entities);
    let mut forecast = Forecast { at_once: gone(&after), dying, more: near.more, ..Forecast::default() };
    let mut units = near.concerned(&played, model);
    forecast.more |= units.len() > UNITS_MAX;
    units.truncate(UNITS_MAX);
    let mut cast = Cast { units, absent: BTreeSet::new(), bound };
    let silent = near.needed(&played, model, &going).into_iter().filter(|one| (heard.silent)(*one));
    match force {
        None => forecast.silent = silent.collect(),
        Some(_) => cast.absent = silent.map(id_of).collect(),
    }
    let removed = played.changes.clone();
    let mut anyway = Forecast::default();
    if before.values().any(|(_, life)| *life != Life::Alive) {
        // what is under way already comes of other removals
        let mut alone = Played { changes: begun, ..Played::on(reader) };
        anyway.more = !play(&mut alone, model, &cast, &mut anyway.hooks);
        release(&mut alone, model, (&near.machines, &cast));
        anyway.gone = gone(&near.lives(&alone, model));
        forecast.more |= anyway.more;
    }
    forecast.more |= !play(&mut played, model, &cast, &mut forecast.hooks);
    release(&mut played, model, (&near.machines, &cast));
    for entity in entities {
        let found = blockers(&mut (&played as &dyn Reader), model, *entity);
        forecast.more |= found.len() > BLOCKERS_MAX;
        forecast.blocked.extend(found.into_iter().take(BLOCKERS_MAX));
    }
    // what goes with something that has gone before it is not forced with it
    for unit in near.units.keys().filter(|_| force.is_none()) {
        let there = name(&played, model, Entity::Unit(*unit)).is_some();
        if there && going.contains(&Entity::Unit(*unit)) && forecast.blocked.len() < BLOCKERS_MAX {
            forecast.blocked.extend(blockers(&mut (&played as &dyn Reader), model, Entity::Unit(*unit)));
        }
    }
    if let Some(force) = force {
        let asked: BTreeSet<Uuid> = entities.iter().copied().map(id_of).collect();
        let others = forced(reader, model).into_iter().filter(|id| !asked.contains(id)).collect();
        if force.no_wait {
            // it waits for nobody: whoever it removes does nothing, and the others see it done
            played.changes = removed;
            let mut away = BTreeSet::new();
            forecast.more |= !act(&mut played, model, (&others, bound), &mut |_, due| {
                away.extend(due.iter().filter_map(|id| near.units.get(id)).map(|doc| &doc.name));
                true
            });
            forecast.left_out = std::mem::take(&mut forecast.hooks);
            forecast.left_out.retain(|(unit, _)| away.contains(unit));
            forecast.more |= !play(&mut played, model, &cast, &mut forecast.hooks);
        } else {
            forecast.more |= !act(&mut played, model, (&others, bound), &mut |played, _| {
                play(played, model, &cast, &mut forecast.hooks)
            });
        }
        release(&mut played, model, (&near.machines, &cast));
    }
    forecast.gone = gone(&near.lives(&played, model));
    forecast.gone.retain(|name| !forecast.at_once.contains(name) && !anyway.gone.contains(name));
    forecast.hooks.retain(|one| {
        let known = anyway.hooks.iter().position(|known| known == one && !newly.contains(&one.0));
        known.map(|at| anyway.hooks.swap_remove(at)).is_none()
    });
    for named in [&mut forecast.at_once, &mut forecast.dying, &mut forecast.gone] {
        forecast.more |= named.len() > NAMED_MAX;
        named.truncate(NAMED_MAX);
    }
    let mut told = BTreeSet::new();
    forecast.blocked.retain(|one| told.insert((one.entity.clone(), one.duty.clone(), one.owner.clone())));
    Ok(forecast)
}

fn id_of(entity: Entity) -> Uuid {
    match entity {
        Entity::Unit(id) | Entity::Application(id) | Entity::Relation(id) | Entity::Machine(id) => id,
    }
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

/// Entities and their effective lives, by name.
type Lives = BTreeMap<String, (Entity, Life)>;

/// Who plays.
struct Cast {
    units: Vec<Uuid>,
    /// Units and machines whose agents do nothing.
    absent: BTreeSet<Uuid>,
    /// Documents that may be read.
    bound: usize,
}

/// What a removal can reach: found before it is played, since a play adds nothing.
#[derive(Default)]
struct Near {
    units: BTreeMap<Uuid, UnitDoc>,
    applications: BTreeSet<Uuid>,
    relations: BTreeSet<Uuid>,
    machines: BTreeSet<Uuid>,
    members: BTreeMap<Uuid, Vec<Uuid>>,
    entries: usize,
    more: bool,
}

impl Near {
    /// From what is removed to whom it meets, and from these on again: whoever meets a subordinate that goes because
    /// its relation does is the furthest.
    fn of(reader: &dyn Reader, model: Model, entities: &[Entity]) -> Near {
        let mut near = Near::default();
        for entity in entities {
            match *entity {
                Entity::Unit(id) => near.unit(reader, model, id),
                Entity::Application(id) => {
                    near.applications.insert(id);
                    for unit in near.ids(reader, &model.units_of(id)) {
                        near.unit(reader, model, unit);
                    }
                    near.relations(reader, &model.relations_of(id));
                }
                Entity::Relation(id) => {
                    near.relations.insert(id);
                    near.brought(reader, model, id);
                }
                Entity::Machine(id) => {
                    near.machines.insert(id);
                    for unit in near.ids(reader, &model.units_on(id)) {
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
        let bond = read(reader, &model.relation(id)).and_then(|doc: RelationDoc| doc.bond);
        let Some(bond) = bond else { return };
        for unit in self.ids(reader, &model.units_of(bond.subordinate)) {
            if read(reader, &model.unit(unit)).is_some_and(|doc| doc.bond == Some(bond)) {
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
        if self.units.len() == LOOKED_AT_MAX {
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
            if self.relations.len() < LOOKED_AT_MAX {
                self.relations.insert(id);
            } else {
                self.more |= !self.relations.contains(&id);
            }
        }
    }

    /// The effective life of each.
    fn lives(&self, reader: &dyn Reader, model: Model) -> Lives {
        let mut lives = BTreeMap::new();
        let mut is = |entity: Entity, life: Option<Life>| {
            lives.extend(name(reader, model, entity).zip(life.map(|life| (entity, life))));
        };
        for id in self.units.keys() {
            is(Entity::Unit(*id), effective::unit_life(&mut { reader }, model, *id));
        }
        for id in &self.applications {
            is(Entity::Application(*id), read(reader, &model.application_life(*id)));
        }
        for id in &self.relations {
            is(Entity::Relation(*id), effective::relation_life(&mut { reader }, model, *id));
        }
        for id in &self.machines {
            is(Entity::Machine(*id), read(reader, &model.machine_life(*id)));
        }
        lives
    }

    /// Whose agents owe something before what is `going` has gone: machines, then units that have lived.
    fn needed(&self, after: &dyn Reader, model: Model, going: &[Entity]) -> Vec<Entity> {
        let leaves = |id: &Uuid| {
            let relations =
                self.members.iter().filter(|(relation, _)| going.contains(&Entity::Relation(**relation)));
            relations.flat_map(|(_, members)| members).any(|member| member == id)
        };
        let goes = |(id, doc): &(&Uuid, &UnitDoc)| {
            let of = [Entity::Unit(**id), Entity::Application(doc.application), Entity::Machine(doc.machine)];
            let principal = doc.principal.map(Entity::Unit);
            of.into_iter().chain(principal).any(|one| going.contains(&one))
        };
        let there = |id: &Uuid| read(after, &model.unit(*id)).is_some();
        let ends: Vec<(&Uuid, &UnitDoc)> =
            self.units.iter().filter(goes).filter(|(id, _)| there(id)).collect();
        let mut machines: BTreeSet<Uuid> = ends.iter().map(|(_, doc)| doc.machine).collect();
        machines.extend(self.machines.iter().filter(|id| going.contains(&Entity::Machine(**id))));
        let has_lived = |id: &Uuid| {
            read(after, &model.session(*id)).is_some()
                && read(after, &model.unit_life(*id)) != Some(Life::Dead)
        };
        let units = self.units.keys().filter(|id| leaves(id) || ends.iter().any(|(end, _)| end == id));
        let units = units.filter(|id| has_lived(id)).copied().map(Entity::Unit);
        machines.into_iter().map(Entity::Machine).chain(units).collect()
    }

    /// Units that go, and those that are in a relation that goes or with a unit that goes, by name.
    fn concerned(&self, after: &dyn Reader, model: Model) -> Vec<Uuid> {
        let ends = |life: Option<Life>| life.is_none_or(|life| life != Life::Alive);
        let goes = |id: &Uuid| ends(effective::unit_life(&mut { after }, model, *id));
        let going: BTreeSet<Uuid> = self.units.keys().copied().filter(goes).collect();
        let mut all = going.clone();
        for (id, members) in &self.members {
            let ended = ends(effective::relation_life(&mut { after }, model, *id));
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

/// Each unit in turn does what its agent would, and its machine agent after it, until nobody does anything more.
/// False: it was ended before that.
fn play(played: &mut Played<'_>, model: Model, cast: &Cast, hooks: &mut Vec<(UnitName, String)>) -> bool {
    let (mut steps, mut moved) = (0, true);
    while moved {
        moved = false;
        for id in &cast.units {
            if steps == STEPS_MAX || played.read.get() > cast.bound {
                return false;
            }
            steps += 1;
            moved |= step(played, model, (*id, &cast.absent), hooks);
        }
    }
    true
}

/// What is forced, as far as a forecast looks.
fn forced(reader: &dyn Reader, model: Model) -> Vec<Uuid> {
    let forced = reader.scan(&model.all("forced"), "", LOOKED_AT_MAX);
    forced.iter().filter_map(|stored| last_id(&stored.key)).collect()
}

/// The controller acts for everybody who owes something to what is forced, a bite of each at a time, and `between` is
/// what the others do then. What somebody else had forced before is not played. False: it was ended before nothing but
/// machines was left, which wait for their provider.
fn act(
    played: &mut Played<'_>,
    model: Model,
    (others, bound): (&BTreeSet<Uuid>, usize),
    between: &mut dyn FnMut(&mut Played<'_>, &[Uuid]) -> bool,
) -> bool {
    let mut before = Vec::new();
    for _ in 0..BITES_MAX {
        let due: Vec<Uuid> = forced(played, model).into_iter().filter(|id| !others.contains(id)).collect();
        let is_machine = |id: &Uuid| read(played as &dyn Reader, &model.machine(*id)).is_some();
        if due.iter().all(is_machine) && (due.is_empty() || due == before) {
            return true;
        }
        for id in &due {
            // whatever the clock says: its time has come
            played.run(|draft| force::bite(draft, model, *id, i64::MAX)).ok();
        }
        if played.read.get() > bound || !between(played, &due) {
            return false;
        }
        before = due;
    }
    false
}

/// Machines without units that are Dying go: their agents say that they are dead, and their provider removes them.
fn release(played: &mut Played<'_>, model: Model, (machines, cast): (&BTreeSet<Uuid>, &Cast)) {
    for id in machines.difference(&cast.absent) {
        // refused of one that is Alive, or has units
        if played.run(|draft| machine::set_dead(draft, model, *id)).is_ok() {
            played.run(|draft| machine::remove(draft, model, *id)).ok();
        }
    }
}

/// True if it did something.
fn step(
    played: &mut Played<'_>,
    model: Model,
    (id, absent): (Uuid, &BTreeSet<Uuid>),
    hooks: &mut Vec<(UnitName, String)>,
) -> bool {
    let Some(doc) = read(played as &dyn Reader, &model.unit(id)) else {
        return false;
    };
    if !absent.contains(&doc.machine) && played.run(|draft| unit::remove(draft, model, id)).is_ok() {
        return true;
    }
    if absent.contains(&id) {
        return false;
    }
    let Some((epoch, record)) = decided(played, model, id) else {
        return false;
    };
    let done = commit(played, model, (id, epoch), &record);
    if let (true, Operation::Hook(_)) = (done, &record.operation) {
        hooks.push((doc.name, said(&record.operation)));
    }
    done
}

/// What a unit's agent has begun ends well, whatever comes after it. What runs is known by its name alone: it is what
/// the agent would do next, or it is left alone.
fn end_running(played: &mut Played<'_>, model: Model, id: Uuid, what: &str) {
    if let Some((epoch, record)) = decided(played, model, id)
        && executing(&record.operation) == what
    {
        commit(played, model, (id, epoch), &record);
    }
}

/// What the unit's agent would do next, and the epoch it would say it in.
fn decided(reader: &dyn Reader, model: Model, id: Uuid) -> Option<(u64, Record)> {
    let session = read(reader, &model.session(id)).filter(|session| !force::is_fenced(session))?;
    let mut replica = read(reader, &model.replica(id))?;
    let shown = view::full_within(reader, model, id, usize::MAX)?;
    let view = Snapshot::from_full(shown.delta).expect("a whole view");
    // the controller keeps no history's name: that of the view is the unit's
    replica.local.history = Some(view.position.history);
    match ahead(&mut replica.local, &view) {
        Ahead::Does(record) => Some((session.epoch, *record)),
        Ahead::Waits(_) | Ahead::Ends => None,
    }
}

/// True if it was taken.
fn commit(played: &mut Played<'_>, model: Model, (id, epoch): (Uuid, u64), record: &Record) -> bool {
    let committed = played.run(|draft| {
        // a play adds nothing: who would have to be made is nobody
        hook_commit::commit(draft, model, id, epoch, record, &mut || Uuid(0))
    });
    committed.is_ok_and(|committed| committed.refusal.is_none())
}

/// `db-relation-departed db:1 db/0 departing=db/0`.
fn said(operation: &Operation) -> String {
    let text = operation.to_string();
    text.strip_prefix("hook ").unwrap_or(&text).to_owned()
}
