//! The simulation of a removal: executes the real transitions and the agents' real decisions on a
//! [`SimulatedReader`].
//!
//! The store is never written. Every hook succeeds, no entity is added, and limits on steps and on documents
//! read end the simulation early. Called by the dry run only.

use crate::agents::record_validation::Valid;
use crate::agents::session::AgentSession;
use crate::documents::draft::{Draft, Reader, Revision, StoredDocument, read};
use crate::documents::effective_life;
use crate::documents::json_text::Text;
use crate::documents::prelude::{Kind, Model, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::{machine, unit};
use crate::terms::activity::Activity;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::operation::{Hook, Operation};
use crate::terms::store_engine::StoreEngine;
use crate::transitions::dry_run::affected::ENTITIES_MAX;
use crate::transitions::dry_run::result::ExpectedHook;
use crate::transitions::run_reports::LogLines;
use crate::transitions::{force, record_commit};
use crate::unit::dry_run::{SimulatedStep, simulate_next};
use crate::unit::record::Record;
use crate::unit::snapshot::Snapshot;
use crate::views::view;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of steps of a simulation, steps without effect included: 40 units with some 25 hooks
/// each, and as many without effect.
const STEPS_MAX: usize = 2_000;
/// The maximum number of rounds of batches of a forced removal: a unit takes some ten, since it leaves three
/// scopes per batch, after its subordinates.
const FORCE_ROUNDS_MAX: usize = 40;

/// A reader with simulated changes over the documents of another reader.
pub(crate) struct SimulatedReader<'r> {
    pub(crate) base: &'r dyn Reader,
    pub(crate) changes: BTreeMap<String, Option<Text>>,
    /// The number of documents read so far.
    pub(crate) documents_read: Cell<usize>,
}

impl Reader for SimulatedReader<'_> {
    fn engine(&self) -> StoreEngine {
        self.base.engine()
    }

    fn record_damage(&self, key: &str, why: &str) {
        self.base.record_damage(key, why);
    }

    fn revision(&self) -> Revision {
        self.base.revision()
    }

    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.documents_read.set(self.documents_read.get() + 1);
        match self.changes.get(key) {
            Some(changed) => self.stored(key, changed.as_ref()?),
            None => self.base.get(key),
        }
    }

    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let within = |key: &str| key.starts_with(prefix) && key > after;
        let changes: BTreeMap<&String, &Option<Text>> =
            self.changes.iter().filter(|(key, _)| within(key)).collect();
        let removed = changes.values().filter(|value| value.is_none()).count();
        let base = self.base.scan(prefix, after, limit.saturating_add(removed));
        self.documents_read.set(self.documents_read.get() + base.len());
        let mut all: BTreeMap<String, StoredDocument> =
            base.into_iter().map(|stored| (stored.key.clone(), stored)).collect();
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
    pub(crate) fn over(base: &'r dyn Reader) -> SimulatedReader<'r> {
        SimulatedReader { base, changes: BTreeMap::new(), documents_read: Cell::new(0) }
    }

    fn stored(&self, key: &str, value: &Text) -> Option<StoredDocument> {
        Some(StoredDocument { key: key.to_owned(), revision: self.base.revision(), value: value.clone() })
    }

    pub(crate) fn run<T>(
        &mut self,
        transition: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut draft = Draft::new(self);
        let answer = transition(&mut draft)?;
        // a transaction that is too large is ignored; the removal itself is bounded
        if let Ok(transaction) = draft.finish() {
            self.changes.extend(transaction.writes);
        }
        Ok(answer)
    }
}

/// The units that take part in a simulation, and its limits.
pub(crate) struct Participants {
    pub(crate) units: Vec<Uuid>,
    /// Units and machines whose agents are lost, and so do nothing.
    pub(crate) absent: BTreeSet<Uuid>,
    /// The maximum number of documents that may be read.
    pub(crate) documents_read_max: usize,
}

/// Executes the next step of each unit in turn, or its removal by its machine agent, until no unit has a step left.
/// Returns false if a limit ended the simulation before that.
pub(crate) fn simulate(
    simulated: &mut SimulatedReader<'_>,
    model: Model,
    participants: &Participants,
    hooks: &mut Vec<ExpectedHook>,
) -> bool {
    let (mut steps, mut moved) = (0, true);
    while moved {
        moved = false;
        for id in &participants.units {
            if steps == STEPS_MAX || simulated.documents_read.get() > participants.documents_read_max {
                return false;
            }
            steps += 1;
            moved |= simulate_step(simulated, model, *id, &participants.absent, hooks);
        }
    }
    true
}

/// The entities that are marked for forced removal, up to a limit.
pub(crate) fn forced(reader: &dyn Reader, model: Model) -> Vec<Uuid> {
    let forced = reader.scan(&model.prefix(Kind::ForcedRemoval), "", ENTITIES_MAX);
    forced.iter().filter_map(|stored| last_id(&stored.key)).collect()
}

/// Executes a forced removal in rounds: one batch for each marked entity, then `between`, in which the other
/// agents act. Entities in `others` were marked before this request and are not simulated. Returns false if a
/// limit ended the simulation before only machines were left, which wait for their provider.
pub(crate) fn simulate_force(
    simulated: &mut SimulatedReader<'_>,
    model: Model,
    others: &BTreeSet<Uuid>,
    documents_read_max: usize,
    between: &mut dyn FnMut(&mut SimulatedReader<'_>, &[Uuid]) -> bool,
) -> bool {
    let mut before = Vec::new();
    for _ in 0..FORCE_ROUNDS_MAX {
        let due: Vec<Uuid> = forced(simulated, model).into_iter().filter(|id| !others.contains(id)).collect();
        let is_machine = |id: &Uuid| read(simulated as &dyn Reader, &model.machine(*id)).is_some();
        if due.iter().all(is_machine) && (due.is_empty() || due == before) {
            return true;
        }
        for id in &due {
            // the latest possible time: every grace period is over
            simulated.run(|draft| force::force_batch(draft, model, *id, i64::MAX)).ok();
        }
        if simulated.documents_read.get() > documents_read_max || !between(simulated, &due) {
            return false;
        }
        before = due;
    }
    false
}

/// Sets Dying machines without units Dead, as their agents would, and removes them, as their provider would.
pub(crate) fn simulate_machine_removal(
    simulated: &mut SimulatedReader<'_>,
    model: Model,
    machines: &BTreeSet<Uuid>,
    participants: &Participants,
) {
    for id in machines.difference(&participants.absent) {
        // refused for a machine that is Alive or has units
        if simulated.run(|draft| machine::set_dead(draft, model, *id)).is_ok() {
            simulated.run(|draft| machine::remove(draft, model, *id)).ok();
        }
    }
}

/// The applications whose leader was removed in the simulation.
pub(crate) fn leaderless_applications(
    simulated: &SimulatedReader<'_>,
    model: Model,
    applications: &BTreeSet<Uuid>,
) -> BTreeSet<Uuid> {
    let led = |reader: &dyn Reader, id: &Uuid| reader.get(model.leader(*id).text()).is_some();
    applications.iter().copied().filter(|id| led(simulated.base, id) && !led(simulated, id)).collect()
}

/// The `leader-elected` hook of each application that has one Alive unit left. If several units are left, any of them
/// could be elected, so none is returned.
pub(crate) fn elected_units(
    simulated: &SimulatedReader<'_>,
    model: Model,
    leaderless_applications: &BTreeSet<Uuid>,
) -> Vec<ExpectedHook> {
    let reader = simulated as &dyn Reader;
    let alive = |id: &Uuid| effective_life::unit_life(&mut { reader }, model, *id) == Some(Life::Alive);
    let only = |application: &Uuid| {
        let units = reader.scan(&model.units_of(*application), "", ENTITIES_MAX);
        let mut units = units.iter().filter_map(|stored| last_id(&stored.key)).filter(alive);
        let first = units.next().filter(|_| units.next().is_none())?;
        let grant = read(simulated.base, &model.leader(*application))?;
        let hook = Hook::LeaderElected { generation: Some(grant.generation + 1) };
        Some(ExpectedHook { unit: read(reader, &model.unit(first))?.name, hook })
    };
    leaderless_applications.iter().filter_map(only).collect()
}

/// Executes the next step of a unit, or its removal by the machine agent. Returns whether it did anything.
fn simulate_step(
    simulated: &mut SimulatedReader<'_>,
    model: Model,
    id: Uuid,
    absent: &BTreeSet<Uuid>,
    hooks: &mut Vec<ExpectedHook>,
) -> bool {
    let Some(doc) = read(simulated as &dyn Reader, &model.unit(id)) else {
        return false;
    };
    if !absent.contains(&doc.machine) && simulated.run(|draft| unit::remove(draft, model, id, 0)).is_ok() {
        return true;
    }
    if absent.contains(&id) {
        return false;
    }
    let Some(next) = next_record(simulated, model, id) else {
        return false;
    };
    let done = commit(simulated, &next);
    if let (true, Operation::Hook(hook)) = (done, &next.record.operation) {
        hooks.push(ExpectedHook { unit: doc.name, hook: hook.clone() });
    }
    done
}

/// Finishes the hook that a unit runs now with success, if it is the hook that the simulated agent would run
/// next; ignores it otherwise.
pub(crate) fn finish_running(
    simulated: &mut SimulatedReader<'_>,
    model: Model,
    id: Uuid,
    running: &Activity,
) {
    if let Some(next) = next_record(simulated, model, id)
        && Activity::from(&next.record.operation) == *running
    {
        commit(simulated, &next);
    }
}

/// The record that a unit's agent would send next.
struct NextRecord {
    session: AgentSession,
    record: Record,
}

fn next_record(reader: &dyn Reader, model: Model, id: Uuid) -> Option<NextRecord> {
    let session = read(reader, &model.session(id)).filter(|session| !session.is_fenced())?;
    let mut replica = read(reader, &model.replica(id))?;
    let shown = view::full_view_within(reader, model, id, usize::MAX)?;
    let view = Snapshot::from_full(shown.delta).ok()?;
    // the replica has no store generation: that of the view is the unit's
    replica.local.store_generation = Some(view.position.store_generation);
    match simulate_next(&mut replica.local, &view) {
        SimulatedStep::Performs(record) => {
            // the simulated agent has attached wherever the last session was granted
            let store_generation = session.granted.map_or(Uuid(0), |granted| granted.store_generation);
            let session = AgentSession { model, unit: id, epoch: session.epoch, store_generation };
            Some(NextRecord { session, record: *record })
        }
        SimulatedStep::Waits(_) | SimulatedStep::Finished => None,
    }
}

/// Commits a simulated record. Returns whether it was accepted.
fn commit(simulated: &mut SimulatedReader<'_>, next: &NextRecord) -> bool {
    let committed = simulated.run(|draft| {
        // a simulation adds no entity, so no identifier is used
        let record = Valid::record(next.record.clone())?;
        let creation = Creation { now_ms: next.record.at_ms, ids: &mut || Uuid(0) };
        record_commit::commit(draft, next.session, &record, None, LogLines::ALL, creation)
    });
    committed.is_ok_and(|committed| committed.refusal.is_none())
}
