//! Removal by force: after a grace period, or when the teardown budget of a Dying unit has passed, the controller acts in
//! place of an agent that has not finished, through the transitions that the agent would use, so that all other agents observe an ordinary departure (design 6; spec E.8#9, #10, #21;
//! I24, I27).
//!
//! The document `forced/{entity}` stores when the grace period ends; the janitor calls [`force_batch`] for each
//! of these documents until it is deleted. A batch makes one small change, and the next one is derived from the
//! documents, so a crash between two batches loses nothing:
//!
//! * unit: its subordinates are forced, too; its epoch is raised, so that its agent cannot write any more; it leaves
//!   its scopes, a few at a time; when its subordinates are removed it is Dead; its machine agent has another grace
//!   period to recall it, then the unit is removed.
//! * relation: the units left in its scope leave, a few at a time.
//! * application: its units and relations are forced, too, a few at a time.
//! * machine: its units are forced, too; without units it is Dead, and its provider releases it; a manually provisioned
//!   machine is removed after another grace period.
//!
//! In a model that is destroyed with force, only agents that can still finish get a grace period: a unit in error has
//! none, and neither has a unit or machine whose agent is late ([`super::force_timer::timer_now_ms`]).

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{
    ForcedEntityKind, ForcedRemovalDoc, ForcedRemovalPhase, Model, SessionDoc, last_id,
};
use crate::documents::refusal::Refusal;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, machine, model, relation, unit};
use crate::terms::force::{Force, ForcedBy};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

use super::force_timer::{GRACE_MS, TimerTime, is_due, timer_started_ms};

/// Scopes that one unit leaves in a batch: each may remove its relation and the application at the other end,
/// 21 writes and some 15 reads.
const SCOPES_PER_BATCH: usize = 3;
/// Units that leave one relation in a batch: 2 writes and 4 reads each, and at most 30 writes for the last unit that
/// leaves.
const MEMBERS_PER_BATCH: usize = 10;
/// Units or relations that are forced in a batch with the entity they belong to: 3 reads and a write each,
/// beside the page.
const CHILDREN_PER_BATCH: usize = 20;

/// The user's `remove-unit`, with or without force. A subordinate that is Alive is refused, as without force; a
/// Dying subordinate is accepted with force.
///
/// # Errors
/// As [`unit::destroy`].
pub fn destroy_unit(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Force,
    now_ms: i64,
) -> Result<Destroyed, Refusal> {
    if force == Force::No {
        return unit::destroy(draft, model, id, now_ms);
    }
    let doc = draft.get(&model.unit(id));
    let subordinate = doc.filter(|doc| doc.principal.is_some());
    let dying =
        subordinate.is_some_and(|doc| effective_life::unit_life_of(draft, model, id, &doc) != Life::Alive);
    if !dying && unit::destroy(draft, model, id, now_ms)? == Destroyed::Removed {
        return Ok(Destroyed::Removed);
    }
    mark_requested(draft, model, id, ForcedEntityKind::Unit, force, now_ms);
    Ok(Destroyed::Dying)
}

/// The user's `remove-application`, with or without force.
///
/// # Errors
/// If neither the application nor its tombstone exists.
pub fn destroy_application(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Force,
    now_ms: i64,
) -> Result<Destroyed, Refusal> {
    let destroyed = application::destroy(draft, model, id)?;
    if destroyed == Destroyed::Dying {
        mark_requested(draft, model, id, ForcedEntityKind::Application, force, now_ms);
    }
    Ok(destroyed)
}

/// The user's `remove-relation`, with or without force.
///
/// # Errors
/// If it is a peer relation, or neither it nor its tombstone exists.
pub fn destroy_relation(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Force,
    now_ms: i64,
) -> Result<Destroyed, Refusal> {
    let destroyed = relation::destroy(draft, model, id)?;
    if destroyed == Destroyed::Dying {
        mark_requested(draft, model, id, ForcedEntityKind::Relation, force, now_ms);
    }
    Ok(destroyed)
}

/// The user's `remove-machine`; with force, its units are removed with it (spec E.5 last row).
///
/// # Errors
/// If neither the machine nor its tombstone exists; without force, as [`machine::destroy`].
pub fn destroy_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    force: Force,
    now_ms: i64,
) -> Result<(), Refusal> {
    if force == Force::No {
        return machine::destroy(draft, model, id);
    }
    if draft.get(&model.machine_life(id)) == Some(Life::Alive) {
        draft.put(&model.machine_life(id), &Life::Dying);
    } else if draft.get(&model.machine(id)).is_none() {
        return machine::destroy(draft, model, id);
    }
    mark_requested(draft, model, id, ForcedEntityKind::Machine, force, now_ms);
    Ok(())
}

/// Marks a Dying entity for forced removal at the request of a user; changes nothing without force.
fn mark_requested(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    kind: ForcedEntityKind,
    force: Force,
    now_ms: i64,
) {
    let due_ms = match force {
        Force::No => return,
        Force::AfterWait => now_ms.saturating_add(GRACE_MS),
        Force::AtOnce => now_ms,
    };
    let (no_wait, phase) = (force == Force::AtOnce, ForcedRemovalPhase::default());
    let by = ForcedBy::Operator;
    mark_forced(
        draft,
        model,
        id,
        ForcedRemovalDoc { kind, since_ms: now_ms, due_ms, no_wait, by, phase, waited_ms: 0 },
    );
}

/// Marks an entity for forced removal; returns whether this changed anything.
///
/// A repeated request never extends the remaining time, except by the time of a budget timer that passed since
/// its last checkpoint. Remaining times are compared, not due times: the clock may have been set meanwhile. The
/// grace period of a Dead machine's agent is never changed.
fn mark_forced(draft: &mut Draft, model: Model, id: Uuid, requested: ForcedRemovalDoc) -> bool {
    let key = model.forced_removal(id);
    let left = |forced: &ForcedRemovalDoc| {
        (forced.due_ms - timer_started_ms(forced)).saturating_sub(forced.waited_ms)
    };
    let forced = match draft.get(&key) {
        Some(known)
            if known.phase == ForcedRemovalPhase::AgentGrace
                || (left(&known) <= left(&requested)
                    && (known.no_wait || !requested.no_wait)
                    && (known.by == ForcedBy::Operator || requested.by == ForcedBy::Budget)) =>
        {
            return false;
        }
        Some(known) => {
            let left_ms = left(&known).min(left(&requested)).clamp(0, GRACE_MS);
            let now_ms = timer_started_ms(&requested).saturating_add(requested.waited_ms);
            ForcedRemovalDoc {
                since_ms: known.since_ms.min(requested.since_ms),
                due_ms: now_ms.saturating_add(left_ms),
                waited_ms: GRACE_MS - left_ms,
                no_wait: known.no_wait || requested.no_wait,
                ..requested
            }
        }
        None => requested,
    };
    draft.put(&key, &forced);
    true
}

/// As [`force_batch`], if the timer is still the one for which the time was computed. Otherwise nothing is done, and the caller computes it again:
///
/// 1. The controllers A and B read that the grace period of a unit is over. The clock of B is ahead by two minutes.
/// 2. A sets the unit Dead, and starts the grace period of its machine agent.
/// 3. B runs again after the conflict. By its clock, of which `at` has the time, that grace period is over as well.
///
/// # Errors
/// As there.
pub fn timed_force_batch(draft: &mut Draft, model: Model, id: Uuid, at: TimerTime) -> Result<bool, Refusal> {
    let forced = draft.get(&model.forced_removal(id));
    if forced.is_some_and(|forced| timer_started_ms(&forced) != at.timer_started_ms) {
        return Ok(true);
    }
    force_batch(draft, model, id, at.now_ms)
}

/// Executes the next batch of one forced removal. Returns whether there is more to do now. Deletes the `forced`
/// document of an entity that is removed or needs no force any more.
///
/// # Errors
/// The refusal of a removal of this batch.
pub fn force_batch(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<bool, Refusal> {
    let Some(forced) = draft.get(&model.forced_removal(id)) else {
        return Ok(false);
    };
    let there = match forced.kind {
        ForcedEntityKind::Unit => draft.get(&model.unit(id)).is_some(),
        ForcedEntityKind::Application => draft.get(&model.application(id)).is_some(),
        ForcedEntityKind::Relation => draft.get(&model.relation(id)).is_some(),
        ForcedEntityKind::Machine => draft.get(&model.machine(id)).is_some(),
    };
    if !there {
        draft.remove(&model.forced_removal(id));
        return Ok(false);
    }
    match forced.kind {
        ForcedEntityKind::Unit => unit_batch(draft, model, id, &forced, now_ms),
        ForcedEntityKind::Application => {
            let indexes = [
                (model.units_of(id), ForcedEntityKind::Unit),
                (model.relations_of(id), ForcedEntityKind::Relation),
            ];
            Ok(propagate_batch(draft, model, id, &forced, &indexes))
        }
        ForcedEntityKind::Relation => Ok(is_due(&forced, now_ms) && relation_batch(draft, model, id)),
        ForcedEntityKind::Machine => machine_batch(draft, model, id, &forced, now_ms),
    }
}

fn unit_batch(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedRemovalDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    let session = draft.get(&model.session(id)).unwrap_or_default();
    let waits = forced.by == ForcedBy::Budget && !session.is_fenced();
    if waits && is_budget_changed(draft, model, id, forced) {
        // `now_ms` was computed from the due time that was stored before: the caller computes it again
        return Ok(true);
    }
    let subordinates = draft.ids(&model.subordinates(id), CHILDREN_PER_BATCH);
    let mut propagated = false;
    for subordinate in &subordinates {
        // a subordinate that is Dead already has its own timer, and a teardown budget gives way to a user
        let known = draft.get(&model.forced_removal(*subordinate));
        let is_sooner = |known: ForcedRemovalDoc| {
            forced.no_wait && !known.no_wait
                || forced.by == ForcedBy::Operator && known.by == ForcedBy::Budget
        };
        if known.is_none_or(is_sooner) {
            propagated |= mark_forced(draft, model, *subordinate, forced.clone());
        }
    }
    let dead = draft.get(&model.unit_life(id)) == Some(Life::Dead);
    let due = is_due(forced, now_ms) || !dead && has_failed_in_destroyed_model(draft, model, id, forced);
    if propagated || !due {
        return Ok(propagated);
    }
    if !session.is_fenced() {
        // 1. The unit's agent is disconnected and has unsent records.
        // 2. The controller leaves scopes for it.
        // 3. The agent reconnects. From the raised epoch on its records are refused, so none of them follows
        //    its departure.
        let epoch = session.epoch.saturating_add(1);
        draft.put(&model.session(id), &SessionDoc { epoch, nonce: Uuid(0), ..session });
        return Ok(true);
    }
    if dead {
        unit::remove(draft, model, id, now_ms)?;
        draft.remove(&model.forced_removal(id));
        // its principal may be waiting for this removal
        return Ok(true);
    }
    let scopes = draft.ids(&model.scopes_of(id), SCOPES_PER_BATCH);
    for scope in &scopes {
        relation::leave_scope(draft, model, id, *scope);
    }
    if !scopes.is_empty() {
        return Ok(true);
    }
    if !subordinates.is_empty() {
        return Ok(false);
    }
    unit::set_dead(draft, model, id)?;
    if !forced.no_wait {
        let due_ms = now_ms.saturating_add(GRACE_MS);
        let waits = ForcedRemovalDoc { since_ms: now_ms, due_ms, waited_ms: 0, ..forced.clone() };
        draft.put(&model.forced_removal(id), &waits);
    }
    Ok(forced.no_wait)
}

/// Whether the unit is in error in a model that is destroyed with force. Its agent waits for an operator or for a
/// retry of a hook that has failed, so its grace period would only delay the removal of the model.
fn has_failed_in_destroyed_model(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedRemovalDoc,
) -> bool {
    let destruction = draft.get(&model.model_destruction());
    let by_force = destruction.is_some_and(|destruction| destruction.force != Force::No);
    by_force
        && forced.by == ForcedBy::Operator
        && draft.get(&model.replica(id)).is_some_and(|replica| replica.local.episode().is_some())
}

/// Whether the budget was changed or turned off since the timer was started; updates or deletes the timer
/// accordingly.
fn is_budget_changed(draft: &mut Draft, model: Model, id: Uuid, forced: &ForcedRemovalDoc) -> bool {
    let config = draft.get(&model.model_config()).unwrap_or_default();
    let Some(budget_ms) = model::teardown_budget_ms(&config) else {
        draft.remove(&model.forced_removal(id));
        return true;
    };
    let due_ms = forced.since_ms.saturating_add(budget_ms);
    if due_ms != forced.due_ms {
        draft.put(&model.forced_removal(id), &ForcedRemovalDoc { due_ms, ..forced.clone() });
    }
    due_ms != forced.due_ms
}

fn relation_batch(draft: &mut Draft, model: Model, id: Uuid) -> bool {
    let members = draft.ids(&model.scopes(id), MEMBERS_PER_BATCH);
    for member in &members {
        relation::leave_scope(draft, model, *member, id);
    }
    !members.is_empty()
}

fn machine_batch(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedRemovalDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    if draft.get(&model.machine_life(id)) == Some(Life::Dead) {
        return dead_machine_batch(draft, model, id, forced, now_ms);
    }
    if propagate_batch(draft, model, id, forced, &[(model.machine_units(id), ForcedEntityKind::Unit)]) {
        return Ok(true);
    }
    let dying = draft.get(&model.machine_life(id)) == Some(Life::Dying);
    let ends = dying && is_due(forced, now_ms) && draft.any_key(&model.machine_units(id), &[]).is_none();
    if ends {
        machine::set_dead(draft, model, id)?;
    }
    Ok(ends)
}

/// The next batch of a forced removal of a Dead machine.
///
/// The removal of a machine whose instance a provider terminates waits for the provider, without limit. For a manually
/// provisioned machine, or one whose instance is kept, only the machine's own agent can finish: it gets another grace
/// period to uninstall itself, even with `no_wait`. Then a manual machine is removed; a kept instance is left to its
/// provider, which releases it and removes the machine. An agent that returns later receives the removal, which its
/// retired token permits.
fn dead_machine_batch(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedRemovalDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    let Some(machine) =
        draft.get(&model.machine(id)).filter(|machine| machine.manual || machine.keep_instance)
    else {
        return Ok(false);
    };
    if forced.phase != ForcedRemovalPhase::AgentGrace {
        // this grace period is never skipped, because only the agent can clean up its host
        let (due_ms, phase, no_wait) =
            (now_ms.saturating_add(GRACE_MS), ForcedRemovalPhase::AgentGrace, false);
        let waits =
            ForcedRemovalDoc { since_ms: now_ms, due_ms, phase, no_wait, waited_ms: 0, ..forced.clone() };
        draft.put(&model.forced_removal(id), &waits);
        return Ok(false);
    }
    if now_ms < forced.due_ms {
        return Ok(false);
    }
    match machine.keep_instance {
        true => machine::mark_agent_uninstalled(draft, model, id, machine, true),
        false => machine::remove_without_agent(draft, model, id, machine.name),
    }
    draft.remove(&model.forced_removal(id));
    // the model may be waiting for this removal
    Ok(true)
}

/// Marks the next batch of units and relations that belong to a forced entity, starting where the last batch ended;
/// returns false once all are marked. Nothing is added to an entity that is not Alive, so one pass finds all.
fn propagate_batch(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedRemovalDoc,
    indexes: &[(String, ForcedEntityKind)],
) -> bool {
    let ForcedRemovalPhase::Propagating { kind: at, after } = &forced.phase else { return false };
    let mut indexes = indexes.iter().skip_while(|(_, kind)| kind != at);
    let Some((prefix, kind)) = indexes.next() else { return false };
    let page = draft.page_keys(prefix, after, CHILDREN_PER_BATCH);
    for child in page.iter().filter_map(|key| last_id(key)) {
        let peer = *kind == ForcedEntityKind::Relation
            && draft.get(&model.relation(child)).is_none_or(|relation| relation.is_peer());
        if !peer {
            mark_forced(
                draft,
                model,
                child,
                ForcedRemovalDoc { kind: *kind, phase: ForcedRemovalPhase::default(), ..forced.clone() },
            );
        }
    }
    let phase = match (page.last(), indexes.next()) {
        (Some(last), _) if page.len() == CHILDREN_PER_BATCH => {
            ForcedRemovalPhase::Propagating { kind: *kind, after: last.clone() }
        }
        (_, Some((_, next))) => ForcedRemovalPhase::Propagating { kind: *next, after: String::new() },
        (_, None) => ForcedRemovalPhase::Propagated,
    };
    draft.put(&model.forced_removal(id), &ForcedRemovalDoc { phase, ..forced.clone() });
    true
}
