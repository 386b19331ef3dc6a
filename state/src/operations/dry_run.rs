//! A removal foretold: what would go at once, what would be Dying, which hooks would run on which unit, in order, and
//! what would hold it up. Nothing is kept: the real transitions, and the agents' real decision with every hook a
//! success, are played on top of the documents.

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
use affected::{AffectedEntities, Lives, id_of, name};
use simulation::{
    Participants, SimulatedReader, act, elected, end_running, forced, leaderless, play, release,
};
use std::collections::BTreeSet;

/// Units that are played; of more, the first by name. A play is some 10 reads and a view for each hook.
const UNITS_MAX: usize = 40;
/// Documents a play reads: 1,000 hooks in views of some 200. One that is over it ends with the step it is in.
const READ_MAX: usize = 200_000;
/// Entities named in each list.
const NAMED_MAX: usize = 200;

/// What a removal would come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Gone with the removal itself: `unit web/0`.
    pub at_once: Vec<String>,
    /// Dying with it.
    pub dying: Vec<String>,
    /// In the order in which they would run: the unit, and its hook. Last who is elected where a leader goes, if one
    /// unit is left: of several it may be any.
    pub hooks: Vec<(UnitName, String)>,
    /// Those of units that force removes at once: they run only if their agents are quicker.
    pub left_out: Vec<(UnitName, String)>,
    /// Gone when all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would hold up the rest.
    pub blocked: Vec<Cause>,
    /// Machines and units that it waits for and whose agents are silent; by force it does not wait for them.
    pub silent: Vec<EntityId>,
    /// A bound was met: there is more of the above.
    pub more: bool,
}

/// What is known of agents beside the documents.
pub struct AgentReports<'a> {
    /// The agent of this unit or machine has been silent for too long.
    pub silent: &'a dyn Fn(EntityId) -> bool,
    /// What this unit's agent reports that it is doing.
    pub running: &'a dyn Fn(Uuid) -> Option<Activity>,
}

/// What removing `entities` together would come to, by force if that is given; refused like the removal itself.
pub fn forecast(
    reader: &dyn Reader,
    model: Model,
    asked: (&[EntityId], Option<Force>),
    reports: &AgentReports<'_>,
) -> Result<Forecast, Refusal> {
    dry_run_within(reader, model, asked, (reports, READ_MAX))
}

/// The same, with so many documents read at most: the tests' bound is lower.
pub(crate) fn dry_run_within(
    reader: &dyn Reader,
    model: Model,
    (entities, force): (&[EntityId], Option<Force>),
    (reports, bound): (&AgentReports<'_>, usize),
) -> Result<Forecast, Refusal> {
    let near = AffectedEntities::of(reader, model, entities);
    let mut played = SimulatedReader::on(reader);
    // of more, and beyond the bound, what runs is left as it is: each is a whole view
    // what is removed at once does not end what it runs
    let ended = |id: &Uuid| !force.is_some_and(|force| force.no_wait) || !near.is_removed_with(*id, entities);
    let running = near.units.keys().filter(|id| ended(id));
    let running: Vec<(Uuid, Activity)> =
        running.filter_map(|id| Some((*id, (reports.running)(*id)?))).take(UNITS_MAX).collect();
    for (id, what) in running {
        if played.read.get() <= bound {
            end_running(&mut played, model, id, &what);
        }
    }
    played.read.set(0);
    let begun = played.changes.clone();
    for entity in entities {
        played.run(|draft| match (*entity, force) {
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
    let before = near.lives(reader, model);
    let after = near.lives(&played, model);
    let gone = |then: &Lives| -> Vec<String> {
        before.keys().filter(|name| !then.contains_key(*name)).cloned().collect()
    };
    let was_alive = |name: &String| before.get(name).is_some_and(|(_, life)| *life == Life::Alive);
    let is_dying = |(name, (_, life)): &(&String, &(EntityId, Life))| *life != Life::Alive && was_alive(name);
    let (dying, mut going): (Vec<String>, Vec<EntityId>) =
        after.iter().filter(is_dying).map(|(name, (entity, _))| (name.clone(), *entity)).unzip();
    let newly: BTreeSet<UnitName> =
        going.iter().filter_map(|one| near.units.get(&id_of(*one))).map(|doc| doc.name.clone()).collect();
    going.extend(entities);
    let mut forecast = Forecast { at_once: gone(&after), dying, more: near.more, ..Forecast::default() };
    let mut units = near.concerned(&played, model);
    forecast.more |= units.len() > UNITS_MAX;
    units.truncate(UNITS_MAX);
    let mut cast = Participants { units, absent: BTreeSet::new(), bound };
    let silent = near.needed(&played, model, &going).into_iter().filter(|one| (reports.silent)(*one));
    match force {
        None => forecast.silent = silent.collect(),
        Some(_) => cast.absent = silent.map(id_of).collect(),
    }
    let removed = played.changes.clone();
    let (mut anyway, mut going_anyway) = (Forecast::default(), BTreeSet::new());
    let going_by = |entity: &EntityId| name(reader, model, *entity).is_some_and(|name| !was_alive(&name));
    // asked for by force, what is going already goes another way
    let is_anew = force.is_some() && entities.iter().any(going_by);
    if !is_anew && before.values().any(|(_, life)| *life != Life::Alive) {
        // what is under way already comes of other removals
        let mut alone = SimulatedReader { changes: begun, ..SimulatedReader::on(reader) };
        anyway.more = !play(&mut alone, model, &cast, &mut anyway.hooks);
        release(&mut alone, model, (&near.machines, &cast));
        going_anyway = leaderless(&alone, model, &near.applications);
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
        let there = name(&played, model, EntityId::Unit(*unit)).is_some();
        if there && going.contains(&EntityId::Unit(*unit)) && forecast.blocked.len() < BLOCKERS_MAX {
            forecast.blocked.extend(blockers(&mut (&played as &dyn Reader), model, EntityId::Unit(*unit)));
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
    let mut led = near.applications.clone();
    led.retain(|id| !going_anyway.contains(id));
    if played.read.get() <= bound {
        forecast.hooks.extend(elected(&played, model, &leaderless(&played, model, &led)));
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
    cause::retain_first(&mut forecast.blocked);
    Ok(forecast)
}
