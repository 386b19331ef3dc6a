//! The real transitions, and the agents' real decision, played on top of the documents.

use crate::documents::draft::{Draft, Reader, Revision, StoredDocument, read};
use crate::documents::effective_life;
use crate::documents::json_text::Text;
use crate::documents::keys::{Kind, Model, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::{machine, unit};
use crate::operations::dry_run::affected::ENTITIES_MAX;
use crate::operations::{force, hook_commit};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::unit::activity::Activity;
use crate::unit::dry_run::{SimulatedStep, simulate_next};
use crate::unit::operation::Operation;
use crate::unit::record::Record;
use crate::unit::snapshot::Snapshot;
use crate::views::view;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a play, and as many looks that find nothing to do: 40 units with some 25 hooks each.
const STEPS_MAX: usize = 2_000;
/// Rounds of bites by force: a unit takes some ten, with its scopes three at a time and its subordinates before it.
const BITES_MAX: usize = 40;

/// Documents with changes on top that nobody has made.
pub(crate) struct SimulatedReader<'r> {
    pub(crate) under: &'r dyn Reader,
    pub(crate) changes: BTreeMap<String, Option<Text>>,
    /// Documents that were read.
    pub(crate) read: Cell<usize>,
}

impl Reader for SimulatedReader<'_> {
    fn revision(&self) -> Revision {
        self.under.revision()
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.read.set(self.read.get() + 1);
        match self.changes.get(key) {
            Some(changed) => self.stored(key, changed.as_ref()?),
            None => self.under.get(key),
        }
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let within = |key: &str| key.starts_with(prefix) && key > after;
        let changes: BTreeMap<&String, &Option<Text>> =
            self.changes.iter().filter(|(key, _)| within(key)).collect();
        let removed = changes.values().filter(|value| value.is_none()).count();
        let under = self.under.scan(prefix, after, limit.saturating_add(removed));
        self.read.set(self.read.get() + under.len());
        let mut all: BTreeMap<String, StoredDocument> =
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

impl<'r> SimulatedReader<'r> {
    pub(crate) fn on(under: &'r dyn Reader) -> SimulatedReader<'r> {
        SimulatedReader { under, changes: BTreeMap::new(), read: Cell::new(0) }
    }

    fn stored(&self, key: &str, value: &Text) -> Option<StoredDocument> {
        Some(StoredDocument { key: key.to_owned(), revision: self.under.revision(), value: value.clone() })
    }

    pub(crate) fn run<T>(
        &mut self,
        play: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut draft = Draft::new(self);
        let answer = play(&mut draft)?;
        // what no transaction could hold is not played; the removal itself is bounded
        if let Ok(txn) = draft.finish() {
            self.changes.extend(txn.writes);
        }
        Ok(answer)
    }
}

/// Who plays.
pub(crate) struct Participants {
    pub(crate) units: Vec<Uuid>,
    /// Units and machines whose agents do nothing.
    pub(crate) absent: BTreeSet<Uuid>,
    /// Documents that may be read.
    pub(crate) bound: usize,
}

/// Each unit in turn does what its agent would, and its machine agent after it, until nobody does anything more.
/// False: it was ended before that.
pub(crate) fn play(
    played: &mut SimulatedReader<'_>,
    model: Model,
    cast: &Participants,
    hooks: &mut Vec<(UnitName, String)>,
) -> bool {
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
pub(crate) fn forced(reader: &dyn Reader, model: Model) -> Vec<Uuid> {
    let forced = reader.scan(&model.all(Kind::Forced), "", ENTITIES_MAX);
    forced.iter().filter_map(|stored| last_id(&stored.key)).collect()
}

/// The controller acts for everybody who owes something to what is forced, a bite of each at a time, and `between` is
/// what the others do then. What somebody else had forced before is not played. False: it was ended before nothing but
/// machines was left, which wait for their provider.
pub(crate) fn act(
    played: &mut SimulatedReader<'_>,
    model: Model,
    (others, bound): (&BTreeSet<Uuid>, usize),
    between: &mut dyn FnMut(&mut SimulatedReader<'_>, &[Uuid]) -> bool,
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
pub(crate) fn release(
    played: &mut SimulatedReader<'_>,
    model: Model,
    (machines, cast): (&BTreeSet<Uuid>, &Participants),
) {
    for id in machines.difference(&cast.absent) {
        // refused of one that is Alive, or has units
        if played.run(|draft| machine::set_dead(draft, model, *id)).is_ok() {
            played.run(|draft| machine::remove(draft, model, *id)).ok();
        }
    }
}

/// Applications whose leader has gone in the play.
pub(crate) fn leaderless(
    played: &SimulatedReader<'_>,
    model: Model,
    applications: &BTreeSet<Uuid>,
) -> BTreeSet<Uuid> {
    let led = |reader: &dyn Reader, id: &Uuid| reader.get(model.leader(*id).text()).is_some();
    applications.iter().copied().filter(|id| led(played.under, id) && !led(played, id)).collect()
}

/// Who is elected in these: the one unit that is left. Of several it may be any.
pub(crate) fn elected(
    played: &SimulatedReader<'_>,
    model: Model,
    leaderless: &BTreeSet<Uuid>,
) -> Vec<(UnitName, String)> {
    let reader = played as &dyn Reader;
    let alive = |id: &Uuid| effective_life::unit_life(&mut { reader }, model, *id) == Some(Life::Alive);
    let only = |application: &Uuid| {
        let units = reader.scan(&model.units_of(*application), "", ENTITIES_MAX);
        let mut units = units.iter().filter_map(|stored| last_id(&stored.key)).filter(alive);
        let first = units.next().filter(|_| units.next().is_none())?;
        Some((read(reader, &model.unit(first))?.name, "leader-elected".to_owned()))
    };
    leaderless.iter().filter_map(only).collect()
}

/// True if it did something.
fn step(
    played: &mut SimulatedReader<'_>,
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
    if let (true, Operation::Hook(hook)) = (done, &record.operation) {
        hooks.push((doc.name, hook.to_string()));
    }
    done
}

/// What a unit's agent has begun ends well, whatever comes after it. It is what the agent would do next, or it is left
/// alone.
pub(crate) fn end_running(played: &mut SimulatedReader<'_>, model: Model, id: Uuid, running: &Activity) {
    if let Some((epoch, record)) = decided(played, model, id)
        && Activity::from(&record.operation) == *running
    {
        commit(played, model, (id, epoch), &record);
    }
}

/// What the unit's agent would do next, and the epoch it would say it in.
fn decided(reader: &dyn Reader, model: Model, id: Uuid) -> Option<(u64, Record)> {
    let session = read(reader, &model.session(id)).filter(|session| !force::is_fenced(session))?;
    let mut replica = read(reader, &model.replica(id))?;
    let shown = view::full_view_within(reader, model, id, usize::MAX)?;
    let view = Snapshot::from_full(shown.delta).expect("a whole view");
    // the controller keeps no history's name: that of the view is the unit's
    replica.local.store_generation = Some(view.position.store_generation);
    match simulate_next(&mut replica.local, &view) {
        SimulatedStep::Performs(record) => Some((session.epoch, *record)),
        SimulatedStep::Waits(_) | SimulatedStep::Finished => None,
    }
}

/// True if it was taken.
fn commit(played: &mut SimulatedReader<'_>, model: Model, (id, epoch): (Uuid, u64), record: &Record) -> bool {
    let committed = played.run(|draft| {
        // a play adds nothing: who would have to be made is nobody
        hook_commit::commit(draft, model, id, epoch, record, &mut || Uuid(0))
    });
    committed.is_ok_and(|committed| committed.refusal.is_none())
}
