//! The dry run of a removal: what would be removed immediately, what would become Dying, which hooks would run
//! on which unit in which order, and what would block the rest.
//!
//! Nothing is stored. The dry run executes the real transitions, and the agents' real decisions with every hook
//! a success, on a [`SimulatedReader`] above the store. Called by the operator handlers for `--dry-run`.

mod affected;
mod simulation;

use crate::documents::blockers::{BLOCKERS_MAX, EntityId, blockers};
use crate::documents::draft::Reader;
use crate::documents::keys::Model;
use crate::documents::refusal::Refusal;
use crate::lifecycle::{application, machine, relation, unit};
use crate::operations::force::{self, Force};
use crate::terms::cause::{self, Cause};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::unit::activity::Activity;
use affected::{AffectedEntities, LivesByName, id_of, name};
use simulation::{
    Participants, SimulatedReader, elected_units, finish_running, forced, leaderless_applications, simulate,
    simulate_force, simulate_machine_removal,
};
use std::collections::BTreeSet;

/// The maximum number of units that are simulated; of more, the first by name. The simulation of a unit takes
/// some 10 reads and one view for each hook.
const SIMULATED_UNITS_MAX: usize = 40;
/// The maximum number of documents that a simulation reads: 1,000 hooks in views of some 200 documents. A
/// simulation that exceeds it ends after its current step.
const DOCUMENTS_READ_MAX: usize = 200_000;
/// The maximum number of entities in each list of the result.
const ENTITIES_LISTED_MAX: usize = 200;

/// The result of a dry run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Entities that the request itself removes, for example `unit web/0`.
    pub at_once: Vec<String>,
    /// Entities that the request sets Dying.
    pub dying: Vec<String>,
    /// Units and their hooks, in the order in which they would run. If a leader is removed and one unit is
    /// left, the last entry is its `leader-elected_units`; of several units any could be elected_units, so none is listed.
    pub hooks: Vec<(UnitName, String)>,
    /// Hooks of units that `--force --no-wait` removes immediately: they run only if their agents are faster.
    pub left_out: Vec<(UnitName, String)>,
    /// Entities that are removed when all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What blocks the removal of the rest.
    pub blocked: Vec<Cause>,
    /// Machines and units that the removal waits for and whose agents are lost; a forced removal does not wait
    /// for them.
    pub silent: Vec<EntityId>,
    /// Whether a limit was reached, so that the lists above are incomplete.
    pub more: bool,
}

/// Facts about agents that the store does not contain.
pub struct AgentReports<'a> {
    /// Whether the agent of this unit or machine is lost, that is, has not reported for too long.
    pub silent: &'a dyn Fn(EntityId) -> bool,
    /// The activity that the agent of this unit reports, if any.
    pub running: &'a dyn Fn(Uuid) -> Option<Activity>,
}

/// The effects of removing `entities` together, by force if a force request is given. Refused with the refusal
/// of the removal itself.
pub fn forecast(
    reader: &dyn Reader,
    model: Model,
    request: (&[EntityId], Option<Force>),
    reports: &AgentReports<'_>,
) -> Result<Forecast, Refusal> {
    dry_run_within(reader, model, request, (reports, DOCUMENTS_READ_MAX))
}

/// As [`forecast`], but reads at most `bound` documents; tests use a lower limit.
pub(crate) fn dry_run_within(
    reader: &dyn Reader,
    model: Model,
    (entities, force): (&[EntityId], Option<Force>),
    (reports, bound): (&AgentReports<'_>, usize),
) -> Result<Forecast, Refusal> {
    let affected_entities = AffectedEntities::collect(reader, model, entities);
    let mut simulated = SimulatedReader::over(reader);
    // The hooks that are running now finish first. Beyond both limits they are ignored, because each takes a
    // whole view.
    // A unit that is removed immediately does not finish its hook.
    let ended = |id: &Uuid| !force.is_some_and(|force| force.no_wait) || !affected_entities.is_removed_with(*id, entities);
    let running = affected_entities.units.keys().filter(|id| ended(id));
    let running: Vec<(Uuid, Activity)> =
        running.filter_map(|id| Some((*id, (reports.running)(*id)?))).take(SIMULATED_UNITS_MAX).collect();
    for (id, what) in running {
        if simulated.documents_read.get() <= bound {
            finish_running(&mut simulated, model, id, &what);
        }
    }
    simulated.documents_read.set(0);
    let start_changes = simulated.changes.clone();
    for entity in entities {
        simulated.run(|draft| match (*entity, force) {
            (EntityId::Unit(id), None) => unit::destroy(draft, model, id).map(drop),
            (EntityId::Unit(id), Some(force)) => force::unit(draft, model, id, force).map(drop),
            (EntityId::Application(id), None) => application::destroy(draft, model, id).map(drop),
            (EntityId::Application(id), Some(force)) => force::application(draft, model, id, force).map(drop),
            (EntityId::Relation(id), None) => relation::destroy(draft, model, id).map(drop),
            (EntityId::Relation(id), Some(force)) => force::relation(draft, model, id, force).map(drop),
            (EntityId::Machine(id), None) => machine::destroy(draft, model, id),
            (EntityId::Machine(id), Some(force)) => force::machine(draft, model, id, force),
        })?;
    }
    let before = affected_entities.lives(reader, model);
    let after = affected_entities.lives(&simulated, model);
    let gone = |then: &LivesByName| -> Vec<String> {
        before.keys().filter(|name| !then.contains_key(*name)).cloned().collect()
    };
    let was_alive = |name: &String| before.get(name).is_some_and(|(_, life)| *life == Life::Alive);
    let is_dying = |(name, (_, life)): &(&String, &(EntityId, Life))| *life != Life::Alive && was_alive(name);
    let (dying, mut going): (Vec<String>, Vec<EntityId>) =
        after.iter().filter(is_dying).map(|(name, (entity, _))| (name.clone(), *entity)).unzip();
    let newly: BTreeSet<UnitName> =
        going.iter().filter_map(|one| affected_entities.units.get(&id_of(*one))).map(|doc| doc.name.clone()).collect();
    going.extend(entities);
    let mut forecast = Forecast { at_once: gone(&after), dying, more: affected_entities.truncated, ..Forecast::default() };
    let mut units = affected_entities.affected_units(&simulated, model);
    forecast.more |= units.len() > SIMULATED_UNITS_MAX;
    units.truncate(SIMULATED_UNITS_MAX);
    let mut participants = Participants { units, absent: BTreeSet::new(), documents_read_max: bound };
    let silent = affected_entities.required_agents(&simulated, model, &going).into_iter().filter(|one| (reports.silent)(*one));
    match force {
        None => forecast.silent = silent.collect(),
        Some(_) => participants.absent = silent.map(id_of).collect(),
    }
    let removed = simulated.changes.clone();
    let (mut earlier, mut earlier_leaderless) = (Forecast::default(), BTreeSet::new());
    let going_by = |entity: &EntityId| name(reader, model, *entity).is_some_and(|name| !was_alive(&name));
    // a forced removal of entities that are Dying already changes how these are removed
    let is_anew = force.is_some() && entities.iter().any(going_by);
    if !is_anew && before.values().any(|(_, life)| *life != Life::Alive) {
        // effects of earlier removals are simulated alone, to be excluded from the result
        let mut alone = SimulatedReader { changes: start_changes, ..SimulatedReader::over(reader) };
        earlier.more = !simulate(&mut alone, model, &participants, &mut earlier.hooks);
        simulate_machine_removal(&mut alone, model, (&affected_entities.machines, &participants));
        earlier_leaderless = leaderless_applications(&alone, model, &affected_entities.applications);
        earlier.gone = gone(&affected_entities.lives(&alone, model));
        forecast.more |= earlier.more;
    }
    forecast.more |= !simulate(&mut simulated, model, &participants, &mut forecast.hooks);
    simulate_machine_removal(&mut simulated, model, (&affected_entities.machines, &participants));
    for entity in entities {
        let found = blockers(&mut (&simulated as &dyn Reader), model, *entity);
        forecast.more |= found.len() > BLOCKERS_MAX;
        forecast.blocked.extend(found.into_iter().take(BLOCKERS_MAX));
    }
    // a unit that would be removed with another entity, which is removed before it, is not forced with that
    // entity
    for unit in affected_entities.units.keys().filter(|_| force.is_none()) {
        let there = name(&simulated, model, EntityId::Unit(*unit)).is_some();
        if there && going.contains(&EntityId::Unit(*unit)) && forecast.blocked.len() < BLOCKERS_MAX {
            forecast.blocked.extend(blockers(&mut (&simulated as &dyn Reader), model, EntityId::Unit(*unit)));
        }
    }
    if let Some(force) = force {
        let requested: BTreeSet<Uuid> = entities.iter().copied().map(id_of).collect();
        let others = forced(reader, model).into_iter().filter(|id| !requested.contains(id)).collect();
        if force.no_wait {
            // without a grace period the removed units run nothing, and the others observe their removal
            simulated.changes = removed;
            let mut away = BTreeSet::new();
            forecast.more |= !simulate_force(&mut simulated, model, (&others, bound), &mut |_, due| {
                away.extend(due.iter().filter_map(|id| affected_entities.units.get(id)).map(|doc| &doc.name));
                true
            });
            forecast.left_out = std::mem::take(&mut forecast.hooks);
            forecast.left_out.retain(|(unit, _)| away.contains(unit));
            forecast.more |= !simulate(&mut simulated, model, &participants, &mut forecast.hooks);
        } else {
            forecast.more |= !simulate_force(&mut simulated, model, (&others, bound), &mut |simulated, _| {
                simulate(simulated, model, &participants, &mut forecast.hooks)
            });
        }
        simulate_machine_removal(&mut simulated, model, (&affected_entities.machines, &participants));
    }
    let mut led = affected_entities.applications.clone();
    led.retain(|id| !earlier_leaderless.contains(id));
    if simulated.documents_read.get() <= bound {
        forecast.hooks.extend(elected_units(&simulated, model, &leaderless_applications(&simulated, model, &led)));
    }
    forecast.gone = gone(&affected_entities.lives(&simulated, model));
    forecast.gone.retain(|name| !forecast.at_once.contains(name) && !earlier.gone.contains(name));
    forecast.hooks.retain(|one| {
        let known = earlier.hooks.iter().position(|known| known == one && !newly.contains(&one.0));
        known.map(|at| earlier.hooks.swap_remove(at)).is_none()
    });
    for named in [&mut forecast.at_once, &mut forecast.dying, &mut forecast.gone] {
        forecast.more |= named.len() > ENTITIES_LISTED_MAX;
        named.truncate(ENTITIES_LISTED_MAX);
    }
    cause::retain_first(&mut forecast.blocked);
    Ok(forecast)
}
