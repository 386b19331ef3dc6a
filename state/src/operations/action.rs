//! Actions: a person's wish to one unit, checked before it is queued, run at most once (spec A.16, clients 2.5).

use crate::charm::params;
use crate::documents::blockers::{self, EntityId};
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::keys::{ActionDoc, Model, last_number};
use crate::documents::refusal::{Code, Refusal};
use crate::documents::sequence;
use crate::lifecycle::application;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::status::ActionStatus;
use crate::unit::activity::Activity;
use crate::unit::hook::{ActionWrites, ReportContent};
use crate::unit::record::{Outcome, Record, Said};
use crate::unit::writes::{PARAMS_BYTES_MAX, REPORTS_BYTES_MAX, size};
use serde_json::{Map, Value};

/// Actions of one unit that may wait: they are all cancelled in the transaction that removes the unit, two writes
/// each beside its own 30.
pub const QUEUED_MAX: usize = 20;

/// Actions that are lost with one record of another: with the page 5 reads, where the largest record of an action has
/// 94, and 4 writes. What more of them was queued between a restore and that record goes with the unit's next actions.
const LOST_AT_ONCE: usize = 2;
/// What a lost action says.
const LOST: &str = "lost: the controller was restored from an older copy, and the unit remembers an action by this \
                    number or a later one; whether it ran this one is not known";

/// Lines one action's log keeps; the newest win.
const LOG_LINES_MAX: usize = 1000;

/// Queues an action with complete parameters; the answer is its number.
pub fn enqueue(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    name: &str,
    given: &Map<String, Value>,
    now_ms: i64,
) -> Result<u64, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    if effective_life::unit_life_of(draft, model, unit, &doc) == Life::Dead {
        let blockers = blockers::blockers(draft, model, EntityId::Unit(unit));
        return Err(
            Refusal::new(Code::NotAlive, format!("unit {} is dead", doc.name)).blockers(model, blockers)
        );
    }
    let (_, charm) = application::charm_of(draft, model, doc.application).expect("a unit has a charm (I22)");
    let Some(action) = charm.actions.get(name) else {
        let message = format!("action {name:?} on unit {} (not found)", doc.name);
        let known: Vec<&str> = charm.actions.keys().map(String::as_str).collect();
        let hint = match known.is_empty() {
            true => format!("charm {} has no actions", charm.name),
            false => format!("charm {} has: {}", charm.name, known.join(", ")),
        };
        return Err(Refusal::new(Code::NotFound, message).hint(hint));
    };
    let params = params::validate(action, given).map_err(|message| Refusal::new(Code::Invalid, message))?;
    let bytes = size(&params);
    if bytes > PARAMS_BYTES_MAX {
        let message =
            format!("the parameters of action {name:?} take {bytes} bytes: {PARAMS_BYTES_MAX} at most");
        return Err(Refusal::new(Code::Invalid, message));
    }
    if draft.page::<bool>(&model.actions_of(unit), "", QUEUED_MAX).len() >= QUEUED_MAX {
        let message = format!("{QUEUED_MAX} actions wait for unit {} already", doc.name);
        return Err(Refusal::new(Code::Busy, message));
    }
    let id = sequence::take(draft, model, "action") + 1;
    draft.put(
        &model.action(id),
        &ActionDoc {
            id,
            unit,
            unit_name: doc.name,
            name: name.to_owned(),
            params: params.into_iter().collect(),
            status: ActionStatus::Pending,
            message: String::new(),
            results: Default::default(),
            log: Vec::new(),
            enqueued_ms: now_ms,
            started_ms: None,
            completed_ms: None,
        },
    );
    draft.put(&model.action_of(unit, id), &false);
    Ok(id)
}

/// The unit's agent begins it. Not waiting any more: no change.
pub fn begin(draft: &mut Draft, model: Model, unit: Uuid, id: u64, now_ms: i64) {
    if let Some(mut doc) =
        unfinished(draft, model, unit, id).filter(|doc| doc.status == ActionStatus::Pending)
    {
        doc.status = ActionStatus::Running;
        doc.started_ms = Some(now_ms);
        draft.put(&model.action(id), &doc);
        draft.put(&model.action_of(unit, id), &true);
    }
}

/// A unit reports what it is doing: an action that it runs is running, unless that is over.
///
/// The name is compared too. 1. A unit runs action 3, `backup`. 2. The store is restored from before it, and another
/// action, `restore`, is queued for this unit as number 3. 3. The report of the first one arrives.
pub(crate) fn executes(draft: &mut Draft, model: Model, unit: Uuid, activity: &Activity, now_ms: i64) {
    if let Activity::Action { id, name } = activity
        && unfinished(draft, model, unit, *id).is_some_and(|doc| doc.name == *name)
    {
        begin(draft, model, unit, *id, now_ms);
    }
}

fn unfinished(draft: &mut Draft, model: Model, unit: Uuid, id: u64) -> Option<ActionDoc> {
    draft.get(&model.action_of(unit, id))?;
    draft.get(&model.action(id))
}

/// Lines of the action that runs; only the oldest unfinished one can.
pub(crate) fn log(draft: &mut Draft, model: Model, unit: Uuid, said: &[Said]) {
    if !said.iter().any(|said| matches!(said.what, ReportContent::ActionLog(_))) {
        return;
    }
    let page = draft.page::<bool>(&model.actions_of(unit), "", 1);
    let id = page.first().and_then(|(key, _)| last_number(key));
    if let Some(mut doc) = id.and_then(|id| draft.get(&model.action(id))) {
        take_lines(&mut doc, said);
        draft.put(&model.action(doc.id), &doc);
    }
}

/// Lines were sent early and come again with the record: each is kept once. What else is said beside them takes its
/// bytes of the same transaction: the oldest lines make room, and where that is not enough the parameters.
fn take_lines(doc: &mut ActionDoc, said: &[Said]) {
    let mut bytes = 0;
    for said in said {
        if let ReportContent::ActionLog(text) = &said.what {
            let line = (said.at_ms, text.clone());
            if !doc.log.contains(&line) {
                doc.log.push(line);
            }
        } else {
            bytes += size(said);
        }
    }
    if bytes + size(&doc.params) > REPORTS_BYTES_MAX {
        doc.params.clear();
    }
    bytes += size(&doc.params);
    let fits = |line: &&(i64, String)| {
        bytes += size(line);
        bytes <= REPORTS_BYTES_MAX
    };
    let kept = doc.log.iter().rev().take(LOG_LINES_MAX).take_while(fits).count();
    doc.log.drain(..doc.log.len() - kept);
}

/// The record of an action ends it, whatever its outcome. The charm's action-fail and a failed process both fail it;
/// the process decides the words when the charm has none.
pub(crate) fn finish(draft: &mut Draft, model: Model, unit: Uuid, id: u64, record: &Record) {
    // 1. `run` makes action 3, the unit does it. 2. The store is restored from before it. 3. `run` makes another action
    // 2 for this unit. 4. The record of action 3 comes, in order. The unit remembers having done all up to 3, so that 2
    // would wait for one that never comes, as would the next ones by such numbers (cargo sim 51042551).
    lose_up_to(draft, model, (unit, id.saturating_sub(1)), LOST_AT_ONCE, record.at_ms);
    let Some(mut doc) = unfinished(draft, model, unit, id) else {
        sequence::advance_to(draft, model, "action", id);
        return;
    };
    let ActionWrites { results, failed } = &record.writes.action;
    let (status, message) = match (&record.outcome, failed) {
        (_, Some(reason)) => (ActionStatus::Failed, reason.clone()),
        (Outcome::Failed { reason, .. }, None) => (ActionStatus::Failed, reason.clone()),
        (Outcome::Ok | Outcome::Skipped, None) => (ActionStatus::Completed, String::new()),
        (Outcome::Missing, None) => {
            (ActionStatus::Failed, format!("the charm has no program for action {:?}", doc.name))
        }
    };
    doc.status = status;
    doc.message = message;
    doc.results.extend(results.clone());
    doc.started_ms.get_or_insert(record.at_ms);
    doc.completed_ms = Some(record.at_ms);
    take_lines(&mut doc, &record.said);
    draft.put(&model.action(id), &doc);
    draft.remove(&model.action_of(unit, id));
}

/// The action ran and its writes were refused: it failed, whatever it said (spec/hook-tools.md 3).
pub(crate) fn finish_refused(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: u64,
    record: &Record,
    refusal: &str,
) {
    let mut refused = record.clone();
    let action = &mut refused.writes.action;
    action.results.insert("return-code".to_owned(), 1.into());
    let printed = action.results.get("stderr").and_then(|text| text.as_str()).unwrap_or_default();
    let stderr = format!("{printed}ERROR {refusal}\n");
    action.results.insert("stderr".to_owned(), stderr.into());
    action.failed = Some("committing requested changes failed".to_owned());
    finish(draft, model, unit, id, &refused);
}

/// The unit says again what it remembers: see [`lose_up_to`].
pub(crate) fn restate(draft: &mut Draft, model: Model, unit: Uuid, last: u64, at_ms: i64) {
    // a number that this unit has seen names no other action: it would wait for ever
    sequence::advance_to(draft, model, "action", last);
    lose_up_to(draft, model, (unit, last), QUEUED_MAX, at_ms);
}

/// A restored store waits for actions by numbers that the unit has passed: what it did under them, if anything, went
/// with the store, and no action is run twice.
fn lose_up_to(draft: &mut Draft, model: Model, (unit, last): (Uuid, u64), most: usize, at_ms: i64) {
    for (key, _) in draft.page::<bool>(&model.actions_of(unit), "", most) {
        let Some(id) = last_number(&key).filter(|id| *id <= last) else {
            continue;
        };
        if let Some(mut doc) = unfinished(draft, model, unit, id) {
            end_unheard(&mut doc, LOST.to_owned());
            doc.completed_ms = Some(at_ms);
            draft.put(&model.action(id), &doc);
            draft.remove(&model.action_of(unit, id));
        }
    }
}

/// Ended by another record than its own: small enough to fit beside whatever that writes, many times over.
fn end_unheard(doc: &mut ActionDoc, message: String) {
    doc.status = ActionStatus::Failed;
    doc.message = message;
    doc.params.clear();
    doc.log.clear();
}

/// The unit is removed: what it has not finished it never will.
pub(crate) fn cancel_all(draft: &mut Draft, model: Model, unit: Uuid, name: &UnitName) {
    for (key, _) in draft.page::<bool>(&model.actions_of(unit), "", QUEUED_MAX) {
        let id = last_number(&key).expect("an index ends with the number");
        if let Some(mut doc) = draft.get(&model.action(id)) {
            end_unheard(&mut doc, format!("unit {name} was removed"));
            draft.put(&model.action(id), &doc);
        }
        draft.remove(&model.action_of(unit, id));
    }
}
