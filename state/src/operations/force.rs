//! Removal by force: at its time the controller does what an absent agent owes, through the transitions that agent
//! would use, so that everybody else sees an ordinary departure (design 6; spec E.8#9, #10, #21; I24, I27).
//!
//! `forced/{entity}` says from when on; the janitor calls [`bite`] for each of these documents until it is gone. A bite
//! does one small thing and leaves what is next to be read from the documents, so that a crash between any two loses
//! nothing:
//!
//! | entity | bites |
//! |---|---|
//! | unit | its subordinates are forced too; its epoch is raised, so that its agent can write nothing more; it leaves its scopes, a few at a time; when its subordinates are gone it is Dead; its machine agent has another wait to recall it, then the record goes |
//! | relation | those left in its scope leave, a few at a time |
//! | application | its units and relations are forced too, a few at a time |
//! | machine | its units are forced too; without units it is Dead, and its provider releases it; one that a person brought goes after another wait |

use crate::documents::draft::Draft;
use crate::documents::effective_life::{self, Documents};
use crate::documents::keys::{ForcedBy, ForcedDoc, ForcedKind, Model, SessionDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, machine, model, relation, unit};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// An agent that is asked to go has this long before the controller acts in its place (spec E.6), and a machine agent
/// as long again to recall a unit that is Dead.
pub const WAIT_MS: i64 = 60_000;
/// Scopes one unit leaves in a bite: each may remove its relation and the application at the other end, 21 writes and
/// some 15 reads.
const SCOPES_AT_ONCE: usize = 3;
/// Units that leave one relation in a bite: 2 writes and 4 reads each, and at most 30 writes for the last one out.
const MEMBERS_AT_ONCE: usize = 10;
/// Units or relations that are forced with what they belong to in a bite: 3 reads and a write each, beside the page.
const CHILDREN_AT_ONCE: usize = 20;

/// How much of a wait may be lost with a process without being written down; of longer waits than some minute an
/// eighth. Less than the 10 s between two looks of the janitor: where the controller dies again and again, each process
/// that lives for two of them brings a minute's wait on.
const NOTED_EVERY_MS: i64 = 8_000;
const NOTES_OF_A_WAIT: i64 = 8;
/// Waits that are written down together: a read and a write of a transaction's hundred each.
pub const CHECKPOINTS_PER_TRANSACTION: usize = 40;

/// When force begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Force {
    pub no_wait: bool,
    pub now_ms: i64,
}

impl Force {
    fn asked(self, kind: ForcedKind) -> ForcedDoc {
        let due_ms = if self.no_wait { self.now_ms } else { self.now_ms.saturating_add(WAIT_MS) };
        let (since_ms, no_wait, by) = (self.now_ms, self.no_wait, ForcedBy::Operator);
        ForcedDoc { kind, since_ms, due_ms, no_wait, by, after: String::new(), waited_ms: 0 }
    }
}

/// The user's remove-unit --force. A subordinate that is Alive is refused as ever; one that hangs in its way out is not.
pub fn unit(draft: &mut Draft, model: Model, id: Uuid, force: Force) -> Result<Destroyed, Refusal> {
    let doc = draft.get(&model.unit(id));
    let subordinate = doc.filter(|doc| doc.principal.is_some());
    let dying =
        subordinate.is_some_and(|doc| effective_life::unit_life_of(draft, model, id, &doc) != Life::Alive);
    if !dying && unit::destroy(draft, model, id)? == Destroyed::Removed {
        return Ok(Destroyed::Removed);
    }
    mark(draft, model, id, force.asked(ForcedKind::Unit));
    Ok(Destroyed::Dying)
}

/// The user's remove-application --force.
pub fn application(draft: &mut Draft, model: Model, id: Uuid, force: Force) -> Result<Destroyed, Refusal> {
    let destroyed = application::destroy(draft, model, id)?;
    if destroyed == Destroyed::Dying {
        mark(draft, model, id, force.asked(ForcedKind::Application));
    }
    Ok(destroyed)
}

/// The user's remove-relation --force.
pub fn relation(draft: &mut Draft, model: Model, id: Uuid, force: Force) -> Result<Destroyed, Refusal> {
    let destroyed = relation::destroy(draft, model, id)?;
    if destroyed == Destroyed::Dying {
        mark(draft, model, id, force.asked(ForcedKind::Relation));
    }
    Ok(destroyed)
}

/// The user's remove-machine --force: whatever is assigned to it goes with it (spec E.5 last row).
pub fn machine(draft: &mut Draft, model: Model, id: Uuid, force: Force) -> Result<(), Refusal> {
    if draft.get(&model.machine_life(id)) == Some(Life::Alive) {
        draft.put(&model.machine_life(id), &Life::Dying);
    } else if draft.get(&model.machine(id)).is_none() {
        return machine::destroy(draft, model, id);
    }
    mark(draft, model, id, force.asked(ForcedKind::Machine));
    Ok(())
}

/// The model's teardown budget: a unit found Dying is forced once it was so for `budget_ms`.
pub fn start_budget_timer(draft: &mut Draft, model: Model, id: Uuid, budget_ms: i64, now_ms: i64) {
    let dying = effective_life::unit_life(draft, model, id) == Some(Life::Dying);
    if dying && draft.get(&model.forced(id)).is_none() {
        draft.put(&model.forced(id), &budget_timer(budget_ms, now_ms));
    }
}

/// The wait of a unit that is found Dying now.
pub fn budget_timer(budget_ms: i64, now_ms: i64) -> ForcedDoc {
    let (kind, due_ms) = (ForcedKind::Unit, now_ms.saturating_add(budget_ms));
    let (by, after) = (ForcedBy::Budget, String::new());
    ForcedDoc { kind, since_ms: now_ms, due_ms, no_wait: false, by, after, waited_ms: 0 }
}

/// Asked again, it is never put off, but for what a wait by budget has passed since it was last written down; true if
/// it changed anything. What is left is compared, not when it is due: the clock may have been set meanwhile. A Dead
/// machine's agent has its wait, whoever asks again.
fn mark(draft: &mut Draft, model: Model, id: Uuid, asked: ForcedDoc) -> bool {
    let key = model.forced(id);
    let left =
        |forced: &ForcedDoc| (forced.due_ms - timer_started_ms(forced)).saturating_sub(forced.waited_ms);
    let forced = match draft.get(&key) {
        Some(known)
            if known.after == DEAD
                || (left(&known) <= left(&asked)
                    && (known.no_wait || !asked.no_wait)
                    && (known.by == ForcedBy::Operator || asked.by == ForcedBy::Budget)) =>
        {
            return false;
        }
        Some(known) => {
            let left_ms = left(&known).min(left(&asked)).clamp(0, WAIT_MS);
            let now_ms = timer_started_ms(&asked).saturating_add(asked.waited_ms);
            ForcedDoc {
                since_ms: known.since_ms.min(asked.since_ms),
                due_ms: now_ms.saturating_add(left_ms),
                waited_ms: WAIT_MS - left_ms,
                no_wait: known.no_wait || asked.no_wait,
                ..asked
            }
        }
        None => asked,
    };
    draft.put(&key, &forced);
    true
}

/// Force has begun: no agent of the unit writes anything more, and none attaches. Only force leaves no nonce.
pub(crate) fn is_fenced(session: &SessionDoc) -> bool {
    session.epoch > 0 && session.nonce == Uuid(0)
}

/// The wait before force is over, at a time that counts what was waited for since it began ([`timer_started_ms`]).
pub fn is_due(forced: &ForcedDoc, now_ms: i64) -> bool {
    forced.no_wait || forced.due_ms <= now_ms
}

/// When the wait that ends at `due_ms` began: another beginning is another wait, another end of the same is not.
pub fn timer_started_ms(forced: &ForcedDoc) -> i64 {
    match forced.by {
        ForcedBy::Operator => forced.due_ms.saturating_sub(WAIT_MS),
        ForcedBy::Budget => forced.since_ms,
    }
}

/// After how much more of a wait it is to be written down what has passed of it: so much may be lost with a process.
pub fn checkpoint_interval_ms(forced: &ForcedDoc) -> i64 {
    let length_ms = forced.due_ms.saturating_sub(timer_started_ms(forced));
    (length_ms / NOTES_OF_A_WAIT).max(NOTED_EVERY_MS)
}

/// How much of a wait has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForceTimer {
    pub id: Uuid,
    /// Which wait of it: see [`timer_started_ms`].
    pub timer_started_ms: i64,
    pub waited_ms: i64,
}

/// Writes down what has passed of at most [`CHECKPOINTS_PER_TRANSACTION`] waits, for the controller's next process to go on from.
pub fn waited(draft: &mut Draft, model: Model, waits: &[ForceTimer]) {
    for wait in waits {
        let known = draft
            .get(&model.forced(wait.id))
            .filter(|forced| timer_started_ms(forced) == wait.timer_started_ms);
        if let Some(forced) = known {
            draft.put(&model.forced(wait.id), &ForcedDoc { waited_ms: wait.waited_ms, ..forced });
        }
    }
}

/// One bite of what is forced; true = there is more to do now. What is gone, or needs no force any more, loses its
/// document.
pub fn bite(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<bool, Refusal> {
    let Some(forced) = draft.get(&model.forced(id)) else {
        return Ok(false);
    };
    let there = match forced.kind {
        ForcedKind::Unit => draft.get(&model.unit(id)).is_some(),
        ForcedKind::Application => draft.get(&model.application(id)).is_some(),
        ForcedKind::Relation => draft.get(&model.relation(id)).is_some(),
        ForcedKind::Machine => draft.get(&model.machine(id)).is_some(),
    };
    if !there {
        draft.remove(&model.forced(id));
        return Ok(false);
    }
    match forced.kind {
        ForcedKind::Unit => of_unit(draft, model, id, &forced, now_ms),
        ForcedKind::Application => {
            let indexes =
                [(model.units_of(id), ForcedKind::Unit), (model.relations_of(id), ForcedKind::Relation)];
            Ok(pass_on(draft, model, id, &forced, &indexes))
        }
        ForcedKind::Relation => Ok(is_due(&forced, now_ms) && of_relation(draft, model, id)),
        ForcedKind::Machine => of_machine(draft, model, id, &forced, now_ms),
    }
}

fn of_unit(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    let session = draft.get(&model.session(id)).unwrap_or_default();
    let waits = forced.by == ForcedBy::Budget && !is_fenced(&session);
    if waits && is_budget_changed(draft, model, id, forced) {
        // `now_ms` was told for the time that was written down: it is asked for again
        return Ok(true);
    }
    let subordinates = draft.ids(&model.subordinates(id), CHILDREN_AT_ONCE);
    let mut passed_on = false;
    for subordinate in &subordinates {
        // one that is Dead already has its own wait
        let known = draft.get(&model.forced(*subordinate));
        if known.is_none_or(|known| forced.no_wait && !known.no_wait) {
            passed_on |= mark(draft, model, *subordinate, forced.clone());
        }
    }
    if passed_on || !is_due(forced, now_ms) {
        return Ok(passed_on);
    }
    if !is_fenced(&session) {
        // 1. the unit's agent is cut off with records unsent; 2. the controller leaves scopes in its place;
        // 3. the agent is back. From here on its records are refused, so nothing of it follows its departure.
        let epoch = session.epoch.saturating_add(1);
        draft.put(&model.session(id), &SessionDoc { epoch, nonce: Uuid(0), ..session });
        return Ok(true);
    }
    if draft.get(&model.unit_life(id)) == Some(Life::Dead) {
        unit::remove(draft, model, id)?;
        draft.remove(&model.forced(id));
        // its principal may have waited for it
        return Ok(true);
    }
    let scopes = draft.ids(&model.scopes_of(id), SCOPES_AT_ONCE);
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
        let due_ms = now_ms.saturating_add(WAIT_MS);
        let waits = ForcedDoc { since_ms: now_ms, due_ms, waited_ms: 0, ..forced.clone() };
        draft.put(&model.forced(id), &waits);
    }
    Ok(forced.no_wait)
}

/// The budget was changed meanwhile, or taken back: the unit waits for another time, or for none.
fn is_budget_changed(draft: &mut Draft, model: Model, id: Uuid, forced: &ForcedDoc) -> bool {
    let config = draft.get(&model.model_config()).unwrap_or_default();
    let Some(budget_ms) = model::teardown_budget_ms(&config) else {
        draft.remove(&model.forced(id));
        return true;
    };
    let due_ms = forced.since_ms.saturating_add(budget_ms);
    if due_ms != forced.due_ms {
        draft.put(&model.forced(id), &ForcedDoc { due_ms, ..forced.clone() });
    }
    due_ms != forced.due_ms
}

fn of_relation(draft: &mut Draft, model: Model, id: Uuid) -> bool {
    let members = draft.ids(&model.scopes(id), MEMBERS_AT_ONCE);
    for member in &members {
        relation::leave_scope(draft, model, *member, id);
    }
    !members.is_empty()
}

fn of_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    if draft.get(&model.machine_life(id)) == Some(Life::Dead) {
        return dead_machine(draft, model, id, forced, now_ms);
    }
    if pass_on(draft, model, id, forced, &[(model.machine_units(id), ForcedKind::Unit)]) {
        return Ok(true);
    }
    let dying = draft.get(&model.machine_life(id)) == Some(Life::Dying);
    let ends = dying && is_due(forced, now_ms) && draft.first(&model.machine_units(id), &[]).is_none();
    if ends {
        machine::set_dead(draft, model, id)?;
    }
    Ok(ends)
}

/// A provider releases its machine, however long that takes. One that a person brought, or keeps, has nobody but its own
/// agent, which has another wait to take itself away, `no_wait` or not; then the record goes, of one that is kept once
/// its provider has handed it over, and an agent that comes back learns of it by its token.
fn dead_machine(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedDoc,
    now_ms: i64,
) -> Result<bool, Refusal> {
    let Some(machine) = draft.get(&model.machine(id)).filter(|machine| machine.manual || machine.kept) else {
        return Ok(false);
    };
    if forced.after != DEAD {
        // this one is waited for by the time that passes, whatever was asked
        let (due_ms, after, no_wait) = (now_ms.saturating_add(WAIT_MS), DEAD.to_owned(), false);
        let waits = ForcedDoc { since_ms: now_ms, due_ms, after, no_wait, waited_ms: 0, ..forced.clone() };
        draft.put(&model.forced(id), &waits);
        return Ok(false);
    }
    if now_ms < forced.due_ms {
        return Ok(false);
    }
    match machine.kept {
        true => machine::mark_agent_gone(draft, model, id, machine, true),
        false => machine::remove_without_agent(draft, model, id, machine.name),
    }
    draft.remove(&model.forced(id));
    // the model may have waited for it
    Ok(true)
}

/// The next few of what belongs to an entity are forced as it is, from where the last bite ended; false = all are.
/// Nothing is added to what is going away, so one pass finds all.
fn pass_on(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    forced: &ForcedDoc,
    indexes: &[(String, ForcedKind)],
) -> bool {
    let at = indexes.iter().position(|(prefix, _)| forced.after.starts_with(prefix)).unwrap_or(0);
    let Some((prefix, kind)) = indexes.get(at).filter(|_| forced.after != DONE) else {
        return false;
    };
    let page = draft.page_keys(prefix, &forced.after, CHILDREN_AT_ONCE);
    for child in page.iter().filter_map(|key| last_id(key)) {
        let peer = *kind == ForcedKind::Relation
            && draft.get(&model.relation(child)).is_none_or(|relation| relation.is_peer());
        if !peer {
            mark(draft, model, child, ForcedDoc { kind: *kind, after: String::new(), ..forced.clone() });
        }
    }
    let after = match (page.last(), indexes.get(at + 1)) {
        (Some(last), _) if page.len() == CHILDREN_AT_ONCE => last.clone(),
        (_, Some((next, _))) => next.clone(),
        (_, None) => DONE.to_owned(),
    };
    draft.put(&model.forced(id), &ForcedDoc { after, ..forced.clone() });
    true
}

/// Of a machine that a person brought: it is Dead, and its agent has its wait.
const DEAD: &str = "dead";
/// All that belongs to the entity was forced with it.
const DONE: &str = "done";
