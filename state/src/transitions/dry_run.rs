//! The dry run of a removal: what would be removed immediately, what would become Dying, which hooks would run
//! on which unit in which order, and what would block the rest.
//!
//! Nothing is stored. The dry run executes the real transitions and the agents' real decisions on a simulated reader
//! above the store, and assumes that every hook succeeds. Called by the handlers of users for `--dry-run`.

mod affected;
mod result;
mod simulation;
mod whole_model;

use crate::documents::blockers::{BLOCKERS_MAX, EntityId, blockers, kept_content};
use crate::documents::draft::Reader;
use crate::documents::prelude::Model;
use crate::documents::refusal::Refusal;
use crate::terms::activity::Activity;
use crate::terms::cause::{self, Cause, Entity};
use crate::terms::force::Force;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::refusal::RefusalReason;
use crate::transitions::force;
use affected::{AffectedEntities, EntityLife, Lives, id_of, name};
use simulation::{
    Participants, SimulatedReader, elected_units, finish_running, forced, leaderless_applications, simulate,
    simulate_force, simulate_machine_removal,
};
use std::collections::BTreeSet;

pub use result::{DryRun, ExpectedHook};
pub use whole_model::dry_run_of_model;

/// The maximum number of entities of one request: each is removed in the same simulation.
pub const TARGETS_MAX: usize = 20;
/// The maximum number of units that are simulated; if there are more, the first ones by name. The simulation of a unit
/// takes some 10 reads and one view for each hook.
const SIMULATED_UNITS_MAX: usize = 40;
/// The maximum number of documents that a simulation reads: 1,000 hooks in views of some 200 documents. A
/// simulation that exceeds it ends after its current step.
const DOCUMENTS_READ_MAX: usize = 200_000;
/// The maximum number of entities in each list of the result.
const ENTITIES_LISTED_MAX: usize = 200;

/// A request to remove entities.
#[derive(Clone, Copy)]
pub struct Removal<'a> {
    /// The entities, at most [`TARGETS_MAX`] ([`require_count`]). They are removed one after the other.
    pub entities: &'a [EntityId],
    /// Whether they are removed by force.
    pub force: Force,
    /// The current time.
    pub now_ms: i64,
}

/// Facts about agents that the store does not contain.
pub struct AgentReports<'a> {
    /// The cause for the agent of this unit or machine, if it has not reported for too long.
    pub silent_agent: &'a dyn Fn(EntityId) -> Option<Cause>,
    /// The activity that the agent of this unit reports, if any.
    pub running_hook: &'a dyn Fn(Uuid) -> Option<Activity>,
}

/// Permits a dry run of this many removals.
///
/// # Errors
/// If there are more than [`TARGETS_MAX`].
pub fn require_count(count: usize) -> Result<(), Refusal> {
    if count <= TARGETS_MAX {
        return Ok(());
    }
    Err(RefusalReason::TooManySimulated { count, max: TARGETS_MAX }.into())
}

/// Returns the effects of a removal.
///
/// # Errors
/// The refusal of the removal itself.
pub fn dry_run(
    reader: &dyn Reader,
    model: Model,
    removal: Removal<'_>,
    reports: &AgentReports<'_>,
) -> Result<DryRun, Refusal> {
    let (mut result, unresponsive) = dry_run_within(reader, model, removal, reports, DOCUMENTS_READ_MAX)?;
    result.blockers.splice(0..0, unresponsive);
    Ok(result)
}

/// As [`dry_run`], but returns the causes for silent agents apart from the other blockers, and reads at most
/// `documents_read_max` documents; tests use a lower limit.
pub(crate) fn dry_run_within(
    reader: &dyn Reader,
    model: Model,
    removal: Removal<'_>,
    reports: &AgentReports<'_>,
    documents_read_max: usize,
) -> Result<(DryRun, Vec<Cause>), Refusal> {
    let Removal { entities, force, now_ms } = removal;
    let affected = AffectedEntities::collect(reader, model, entities);
    let mut simulated = SimulatedReader::over(reader);
    // The hooks that are running now finish first, except those of units that are removed immediately. Hooks beyond
    // the two limits are ignored, because each needs a full view.
    let finishes_hook = |id: &Uuid| force != Force::AtOnce || !affected.is_removed_with(*id, entities);
    let running = affected.units.keys().filter(|id| finishes_hook(id));
    let running: Vec<(Uuid, Activity)> = running
        .filter_map(|id| Some((*id, (reports.running_hook)(*id)?)))
        .take(SIMULATED_UNITS_MAX)
        .collect();
    for (id, what) in running {
        if simulated.documents_read.get() <= documents_read_max {
            finish_running(&mut simulated, model, id, &what);
        }
    }
    simulated.documents_read.set(0);
    let start_changes = simulated.changes.clone();
    for entity in entities {
        simulated.run(|draft| match *entity {
            EntityId::Unit(id) => force::destroy_unit(draft, model, id, force, now_ms).map(drop),
            EntityId::Application(id) => {
                force::destroy_application(draft, model, id, force, now_ms).map(drop)
            }
            EntityId::Relation(id) => force::destroy_relation(draft, model, id, force, now_ms).map(drop),
            EntityId::Machine(id) => force::destroy_machine(draft, model, id, force, now_ms),
        })?;
    }
    let before = affected.lives(reader, model);
    let after = affected.lives(&simulated, model);
    let removed = |then: &Lives| -> Vec<Entity> {
        before.keys().filter(|name| !then.contains_key(*name)).cloned().collect()
    };
    let was_alive = |name: &Entity| before.get(name).is_some_and(|entity| entity.life == Life::Alive);
    let is_dying = |(name, entity): &(&Entity, &EntityLife)| entity.life != Life::Alive && was_alive(name);
    let (dying, mut departing): (Vec<Entity>, Vec<EntityId>) =
        after.iter().filter(is_dying).map(|(name, entity)| (name.clone(), entity.id)).unzip();
    let newly_dying: BTreeSet<UnitName> = departing
        .iter()
        .filter_map(|entity| affected.units.get(&id_of(*entity)))
        .map(|doc| doc.name.clone())
        .collect();
    departing.extend(entities);
    let mut result = DryRun {
        removed_immediately: removed(&after),
        dying,
        truncated: affected.truncated,
        ..DryRun::default()
    };
    let mut units = affected.affected_units(&simulated, model);
    result.truncated |= units.len() > SIMULATED_UNITS_MAX;
    units.truncate(SIMULATED_UNITS_MAX);
    let mut participants = Participants { units, absent: BTreeSet::new(), documents_read_max };
    let required = affected.required_agents(&simulated, model, &departing).into_iter();
    let silent = required.filter_map(|entity| Some((id_of(entity), (reports.silent_agent)(entity)?)));
    let mut unresponsive = Vec::new();
    match force {
        Force::No => unresponsive.extend(silent.map(|(_, cause)| cause)),
        Force::AfterWait | Force::AtOnce => participants.absent = silent.map(|(id, _)| id).collect(),
    }
    let changes_of_request = simulated.changes.clone();
    let (mut earlier, mut earlier_leaderless) = (DryRun::default(), BTreeSet::new());
    let is_dying_already =
        |entity: &EntityId| name(reader, model, *entity).is_some_and(|name| !was_alive(&name));
    // a forced removal of entities that are Dying already changes how these are removed
    let changes_earlier_removal = force != Force::No && entities.iter().any(is_dying_already);
    if !changes_earlier_removal && before.values().any(|entity| entity.life != Life::Alive) {
        // effects of earlier removals are simulated alone, to be excluded from the result
        let mut earlier_simulation =
            SimulatedReader { changes: start_changes, ..SimulatedReader::over(reader) };
        earlier.truncated = !simulate(&mut earlier_simulation, model, &participants, &mut earlier.hooks);
        simulate_machine_removal(&mut earlier_simulation, model, &affected.machines, &participants);
        earlier_leaderless = leaderless_applications(&earlier_simulation, model, &affected.applications);
        earlier.removed_eventually = removed(&affected.lives(&earlier_simulation, model));
        result.truncated |= earlier.truncated;
    }
    result.truncated |= !simulate(&mut simulated, model, &participants, &mut result.hooks);
    simulate_machine_removal(&mut simulated, model, &affected.machines, &participants);
    for entity in entities {
        let found = blockers(&mut (&simulated as &dyn Reader), model, *entity);
        result.truncated |= found.len() > BLOCKERS_MAX;
        result.blockers.extend(found.into_iter().take(BLOCKERS_MAX));
    }
    // a unit that would be removed with another entity, which is removed before it, is not forced with that
    // entity
    for unit in affected.units.keys().filter(|_| force == Force::No) {
        let exists = name(&simulated, model, EntityId::Unit(*unit)).is_some();
        if exists && departing.contains(&EntityId::Unit(*unit)) && result.blockers.len() < BLOCKERS_MAX {
            result.blockers.extend(blockers(&mut (&simulated as &dyn Reader), model, EntityId::Unit(*unit)));
        }
    }
    if force != Force::No {
        let requested: BTreeSet<Uuid> = entities.iter().copied().map(id_of).collect();
        let others = forced(reader, model).into_iter().filter(|id| !requested.contains(id)).collect();
        if force == Force::AtOnce {
            // without a grace period the removed units run nothing, and the others observe their removal
            simulated.changes = changes_of_request;
            let mut removed_names = BTreeSet::new();
            result.truncated |=
                !simulate_force(&mut simulated, model, &others, documents_read_max, &mut |_, due| {
                    removed_names
                        .extend(due.iter().filter_map(|id| affected.units.get(id)).map(|doc| &doc.name));
                    true
                });
            result.skipped_hooks = std::mem::take(&mut result.hooks);
            result.skipped_hooks.retain(|expected| removed_names.contains(&expected.unit));
            result.truncated |= !simulate(&mut simulated, model, &participants, &mut result.hooks);
        } else {
            result.truncated |=
                !simulate_force(&mut simulated, model, &others, documents_read_max, &mut |simulated, _| {
                    simulate(simulated, model, &participants, &mut result.hooks)
                });
        }
        simulate_machine_removal(&mut simulated, model, &affected.machines, &participants);
    }
    let mut with_leader = affected.applications.clone();
    with_leader.retain(|id| !earlier_leaderless.contains(id));
    if simulated.documents_read.get() <= documents_read_max {
        result.hooks.extend(elected_units(
            &simulated,
            model,
            &leaderless_applications(&simulated, model, &with_leader),
        ));
    }
    result.removed_eventually = removed(&affected.lives(&simulated, model));
    result.removed_eventually.retain(|name| {
        !result.removed_immediately.contains(name) && !earlier.removed_eventually.contains(name)
    });
    result.hooks.retain(|entry| {
        let known = earlier
            .hooks
            .iter()
            .position(|known| known.is_same_as(entry) && !newly_dying.contains(&entry.unit));
        known.map(|at| earlier.hooks.swap_remove(at)).is_none()
    });
    for named in [&mut result.removed_immediately, &mut result.dying, &mut result.removed_eventually] {
        named.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
        result.truncated |= named.len() > ENTITIES_LISTED_MAX;
        named.truncate(ENTITIES_LISTED_MAX);
    }
    cause::deduplicate(&mut result.blockers);
    let newly_kept = |id: &Uuid| {
        let kept = kept_content(&mut (&simulated as &dyn Reader), model, *id)?;
        kept_content(&mut (reader as &dyn Reader), model, *id).is_none().then_some(kept)
    };
    result.kept = affected.machines.iter().filter_map(newly_kept).take(ENTITIES_LISTED_MAX).collect();
    Ok((result, unresponsive))
}

/// The position of a kind of entity in the lists of a dry run.
fn rank(entity: &Entity) -> u8 {
    match entity {
        Entity::Application(_) => 0,
        Entity::Machine(_) => 1,
        Entity::Model(_) => 2,
        Entity::Relation(_) => 3,
        Entity::Unit(_) => 4,
    }
}
