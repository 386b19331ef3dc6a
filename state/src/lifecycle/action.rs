//! Actions: a user's request to one unit, validated before it is enqueued, run at most once (spec A.16, clients
//! 2.5). Commands of a user (`juju exec`) are enqueued beside them, as actions with a reserved name.
//!
//! An action is started and finished by the records of its unit's agent. After the restore of a backup, an
//! action whose number the unit has already passed fails as lost; it is never run a second time. Called by the
//! handlers of users, by the commit of records, when a unit is removed, and by the janitor.

use crate::charm::params;
use crate::documents::application::charm_of;
use crate::documents::blockers::{self, EntityId};
use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Key, PAGE_MAX, Reader, StoredDocument, parse};
use crate::documents::effective_life;
use crate::documents::prelude::{ActionDoc, ActionFailure, ActionLogLine, Model, UnitDoc, last_number};
use crate::documents::refusal::Refusal;
use crate::documents::sequence;
use crate::lifecycle::machine::UNITS_MAX;
use crate::terms::activity::Activity;
use crate::terms::commands;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::operation::Operation;
use crate::terms::refusal::action::ActionRefusal;
use crate::terms::refusal::machine::MachineRefusal;
use crate::terms::refusal::unit::UnitRefusal;
use crate::terms::refusal::{EntityKind, RefusalReason};
use crate::terms::status::ActionStatus;
use crate::unit::hook_context::{ActionWrites, ReportContent};
use crate::unit::record::{Outcome, Record, RunReport};
use crate::unit::writes::{PARAMS_BYTES_MAX, REPORTS_BYTES_MAX, size};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The maximum number of enqueued actions of one unit. All of them fail in the transaction that removes the unit, with
/// two writes each beside its own 30.
pub const ENQUEUED_MAX: usize = 20;

/// The maximum number of unfinished actions of one unit: the enqueued ones, and one that was cancelled, made room for
/// another, and is then reported as started.
const UNFINISHED_MAX: usize = ENQUEUED_MAX + 1;

/// The maximum number of actions that one record of another action fails as lost: 5 reads with the page and 4 writes,
/// beside those of the record. If more were enqueued between a restore and that record, the records of the next actions
/// fail them.
const LOST_PER_RECORD_MAX: usize = 2;

/// The sequence that numbers the actions of a model.
const SEQUENCE: &str = "action";

/// The maximum number of log lines of one action; the oldest are dropped.
const ACTION_LOG_LINES_MAX: usize = 1000;

/// Enqueues an action with validated parameters and returns it. Refused if the unit is Dead, the charm
/// does not declare the action, a parameter is invalid, or [`ENQUEUED_MAX`] actions are enqueued.
pub fn enqueue(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    name: &str,
    given: &Map<String, Value>,
    now_ms: i64,
) -> Result<ActionDoc, Refusal> {
    let doc = living_unit(draft, model, unit)?;
    let (_, charm) = charm_of(draft, model, doc.application)
        .ok_or_else(|| Refusal::not_found(EntityKind::Application, doc.application))?;
    let Some(action) = charm.actions.get(name) else {
        let (charm, known) = (charm.name.clone(), charm.actions.keys().cloned().collect());
        return Err(ActionRefusal::Unknown { action: name.to_owned(), unit: doc.name, charm, known }.into());
    };
    let params = params::with_defaults(action, given);
    require_size(name, &params)?;
    params::validate(action, &params).map_err(|problems| ActionRefusal::InvalidParameters { problems })?;
    let request = Request { name, params: params.into_iter().collect(), machine: None, now_ms };
    put_enqueued(draft, model, unit, doc.name, request)
}

/// Enqueues commands that run in the context of the unit (`juju exec`), beside its actions, and returns them.
/// Refused if the unit is Dead, the commands are too long, or [`ENQUEUED_MAX`] actions are enqueued.
pub fn enqueue_exec(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    commands: &str,
    now_ms: i64,
) -> Result<ActionDoc, Refusal> {
    let doc = living_unit(draft, model, unit)?;
    let params = BTreeMap::from([(commands::COMMAND.to_owned(), commands.into())]);
    require_size(commands::EXEC, &params)?;
    let request = Request { name: commands::EXEC, params, machine: None, now_ms };
    put_enqueued(draft, model, unit, doc.name, request)
}

/// Enqueues commands that run on the machine, outside of the context of a unit (`juju exec --machine`), and returns
/// them. The agent of a unit of the machine runs them, beside its own actions and with the same guarantees: a machine
/// agent stores nothing, so it could run commands twice. An Alive unit is preferred.
///
/// # Errors
/// If the machine does not exist, has no unit that is not Dead, or as for [`enqueue_exec`].
pub fn enqueue_machine_exec(
    draft: &mut Draft,
    model: Model,
    machine: Uuid,
    commands: &str,
    now_ms: i64,
) -> Result<ActionDoc, Refusal> {
    let on = draft.get(&model.machine(machine));
    let on = on.ok_or_else(|| Refusal::not_found(EntityKind::Machine, machine))?;
    let units = draft.ids(&model.machine_units(machine), UNITS_MAX).into_iter();
    let lives: Vec<_> = units.map(|unit| (draft.get(&model.unit_life(unit)), unit)).collect();
    let of_life = |wanted| lives.iter().find(|(life, _)| *life == Some(wanted));
    let Some((_, unit)) = of_life(Life::Alive).or_else(|| of_life(Life::Dying)) else {
        return Err(MachineRefusal::NoUnit { machine: on.name }.into());
    };
    let doc = living_unit(draft, model, *unit)?;
    let params = [(commands::COMMAND, commands.into()), (commands::MACHINE, on.name.as_str().into())];
    let params = BTreeMap::from(params.map(|(name, value)| (name.to_owned(), value)));
    require_size(commands::EXEC, &params)?;
    let request = Request { name: commands::EXEC, params, machine: Some(on.name), now_ms };
    put_enqueued(draft, model, *unit, doc.name, request)
}

/// Refuses parameters that are too large.
fn require_size(name: &str, params: &impl Serialize) -> Result<(), Refusal> {
    let bytes = size(params);
    if bytes > PARAMS_BYTES_MAX {
        let (action, max) = (name.to_owned(), PARAMS_BYTES_MAX);
        return Err(ActionRefusal::ParametersTooLarge { action, bytes, max }.into());
    }
    Ok(())
}

/// The document of a unit that is not Dead.
fn living_unit(draft: &mut Draft, model: Model, unit: Uuid) -> Result<UnitDoc, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    if effective_life::unit_life_of(draft, model, unit, &doc) == Life::Dead {
        let blockers = blockers::blockers(draft, model, EntityId::Unit(unit));
        return Err(Refusal::new(UnitRefusal::Dead { unit: doc.name }).blockers(model, blockers));
    }
    Ok(doc)
}

/// The action to enqueue, and the time of the request.
struct Request<'a> {
    name: &'a str,
    /// The machine that commands are requested for.
    machine: Option<String>,
    params: BTreeMap<String, Value>,
    now_ms: i64,
}

fn put_enqueued(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    unit_name: UnitName,
    Request { name, params, machine, now_ms }: Request,
) -> Result<ActionDoc, Refusal> {
    if draft.page::<ActionStatus>(&model.actions_of(unit), "", ENQUEUED_MAX).len() >= ENQUEUED_MAX {
        let (action, max) = (name.to_owned(), ENQUEUED_MAX);
        return Err(ActionRefusal::TooManyEnqueued { action, unit: unit_name, max }.into());
    }
    // After a restore, a new action with a number that this unit has seen would wait without end. The number comes
    // from a record of the unit, so that it moves the numbers of the model only when a user requests an action.
    let passed = draft.get(&model.replica(unit)).and_then(|replica| replica.local.last_action);
    sequence::advance_to(draft, model, SEQUENCE, passed.unwrap_or(0));
    let id = sequence::take(draft, model, SEQUENCE) + 1;
    let doc = ActionDoc {
        id,
        operation: id,
        unit,
        unit_name,
        machine,
        name: name.to_owned(),
        params,
        status: ActionStatus::Pending,
        failure: None,
        results: Default::default(),
        process: None,
        log: Vec::new(),
        enqueued_ms: now_ms,
        started_ms: None,
        completed_ms: None,
    };
    put_unfinished(draft, model, &doc);
    Ok(doc)
}

/// Makes an action that was just enqueued a task of an operation, and returns it. An operation is what a user has
/// requested of several units or machines at once; its number is that of its first task.
///
/// # Errors
/// If the first task of the operation is not stored.
pub fn add_to_operation(
    draft: &mut Draft,
    model: Model,
    action: ActionDoc,
    operation: u64,
) -> Result<ActionDoc, Refusal> {
    let first = draft.get(&model.action(operation)).filter(|first| first.operation == operation);
    first.ok_or_else(|| Refusal::not_found(EntityKind::Operation, operation))?;
    let action = ActionDoc { operation, ..action };
    draft.put(&model.action(action.id), &action);
    Ok(action)
}

/// Stores an action that has not finished, and its status in the index of its unit.
fn put_unfinished(draft: &mut Draft, model: Model, doc: &ActionDoc) {
    draft.put(&model.action(doc.id), doc);
    draft.put(&model.action_of(doc.unit, doc.id), &doc.status);
}

/// Cancels an action and returns it. One that its unit has not started is cancelled at once. One that runs is marked:
/// its agent ends its process, and its record ends the action. Repeating the request changes nothing. Refused if the
/// action has finished otherwise.
///
/// The unit may have started a pending action without the controller's knowledge: see `reportable`.
pub fn cancel(draft: &mut Draft, model: Model, id: u64, now_ms: i64) -> Result<ActionDoc, Refusal> {
    let mut doc = draft.get(&model.action(id)).ok_or_else(|| Refusal::not_found(EntityKind::Task, id))?;
    match doc.status {
        ActionStatus::Pending => {
            doc.status = ActionStatus::Cancelled;
            doc.completed_ms = Some(now_ms);
            draft.put(&model.action(id), &doc);
            draft.remove(&model.action_of(doc.unit, id));
        }
        ActionStatus::Running => {
            doc.status = ActionStatus::Aborting;
            put_unfinished(draft, model, &doc);
        }
        ActionStatus::Cancelled | ActionStatus::Aborting | ActionStatus::Aborted => {}
        ActionStatus::Completed | ActionStatus::Failed => {
            return Err(ActionRefusal::Finished { id, status: doc.status }.into());
        }
    }
    Ok(doc)
}

/// Marks a pending action as running. An action that was cancelled after the unit had started it is marked as being
/// aborted, unless another one runs: a unit runs one at a time, and only one beyond [`ENQUEUED_MAX`] is failed when the
/// unit is removed (`UNFINISHED_MAX`). Any other action is not changed.
pub fn start(draft: &mut Draft, model: Model, unit: Uuid, id: u64, now_ms: i64) {
    let Some(mut doc) = reportable(draft, model, unit, id) else { return };
    doc.status = match doc.status {
        ActionStatus::Pending => ActionStatus::Running,
        ActionStatus::Cancelled if !runs_any(draft, model, unit) => ActionStatus::Aborting,
        _ => return,
    };
    doc.started_ms = Some(now_ms);
    doc.completed_ms = None;
    put_unfinished(draft, model, &doc);
}

/// Whether an action of the unit runs or is being aborted.
fn runs_any(draft: &mut Draft, model: Model, unit: Uuid) -> bool {
    let unfinished = draft.page::<ActionStatus>(&model.actions_of(unit), "", UNFINISHED_MAX);
    unfinished.iter().any(|(_, status)| matches!(status, ActionStatus::Running | ActionStatus::Aborting))
}

/// Marks the action that a unit reports as running, unless the action has finished.
///
/// The names are compared, because the number alone can identify another action:
///
/// 1. A unit runs action 3, `backup`.
/// 2. The store is restored from a backup made before it, and another action, `restore`, is enqueued for this
///    unit as number 3.
/// 3. The report of `backup` arrives. It must not mark `restore` as running.
pub(crate) fn set_running(draft: &mut Draft, model: Model, unit: Uuid, activity: &Activity, now_ms: i64) {
    if let Activity::Action { id, name } = activity
        && reportable(draft, model, unit, *id).is_some_and(|doc| doc.name == *name)
    {
        start(draft, model, unit, *id, now_ms);
    }
}

fn unfinished(draft: &mut Draft, model: Model, unit: Uuid, id: u64) -> Option<ActionDoc> {
    draft.get(&model.action_of(unit, id))?;
    draft.get(&model.action(id))
}

/// An action that a report or a record of this unit can be about: an unfinished one, or one that was cancelled.
///
/// 1. An action is enqueued, and the unit starts it.
/// 2. A user cancels it before the unit's report arrives.
/// 3. The unit reports that the action runs, which marks it as being aborted, or how it ended. Users are shown what
///    the unit reported, not the earlier status of cancelled.
fn reportable(draft: &mut Draft, model: Model, unit: Uuid, id: u64) -> Option<ActionDoc> {
    let doc = draft.get(&model.action(id)).filter(|doc| doc.unit == unit)?;
    (!doc.status.is_final() || doc.status == ActionStatus::Cancelled).then_some(doc)
}

/// Appends log lines to the running action, which is the oldest unfinished one.
pub(crate) fn log(draft: &mut Draft, model: Model, unit: Uuid, reports: &[RunReport]) {
    if !reports.iter().any(|report| matches!(report.what, ReportContent::ActionLog(_))) {
        return;
    }
    let page = draft.page::<ActionStatus>(&model.actions_of(unit), "", 1);
    let id = page.first().and_then(|(key, _)| last_number(key));
    if let Some(mut doc) = id.and_then(|id| draft.get(&model.action(id))) {
        append_log_lines(&mut doc, reports);
        draft.put(&model.action(doc.id), &doc);
    }
}

/// Appends log lines, each once: lines are sent early and again with the record, and their numbers increase. Other reports
/// of the same message take their bytes of the same transaction; the oldest lines are dropped to make room, and if that is
/// not enough the parameters.
fn append_log_lines(doc: &mut ActionDoc, reports: &[RunReport]) {
    let mut bytes = 0;
    for report in reports {
        if let ReportContent::ActionLog(text) = &report.what {
            if doc.log.last().is_none_or(|last| last.report < report.number) {
                let (report, at_ms) = (report.number, report.at_ms);
                doc.log.push(ActionLogLine { report, at_ms, text: text.clone() });
            }
        } else {
            bytes += size(report);
        }
    }
    if bytes + size(&doc.params) > REPORTS_BYTES_MAX {
        doc.params.clear();
    }
    bytes += size(&doc.params);
    let fits = |line: &&ActionLogLine| {
        bytes += size(line);
        bytes <= REPORTS_BYTES_MAX
    };
    let kept = doc.log.iter().rev().take(ACTION_LOG_LINES_MAX).take_while(fits).count();
    doc.log.drain(..doc.log.len() - kept);
}

/// Completes or fails an action by its record. It fails if the charm called `action-fail` or if its process
/// failed; the message is that of `action-fail`, otherwise the reason why the process failed.
pub(crate) fn finish(draft: &mut Draft, model: Model, unit: Uuid, id: u64, record: &Record) {
    finish_with(draft, model, unit, id, record, None);
}

fn finish_with(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: u64,
    record: &Record,
    refusal: Option<&RefusalReason>,
) {
    // 1. `run` enqueues action 3, and the unit runs it.
    // 2. The store is restored from a backup made before it.
    // 3. `run` enqueues another action 2 for this unit.
    // 4. The record of action 3 arrives, in order. The unit has recorded that it finished all actions up to 3,
    //    so action 2 and the following ones would wait without end (cargo sim 51042551).
    fail_lost(draft, model, unit, id.saturating_sub(1), LOST_PER_RECORD_MAX, record.at_ms);
    let Some(mut doc) = reportable(draft, model, unit, id) else {
        return;
    };
    if matches!(&record.operation, Operation::Action { name, .. } if *name != doc.name) {
        // another action had this number before the restore: see `set_running`
        fail_without_record(&mut doc, ActionFailure::Lost, record.at_ms);
        draft.put(&model.action(id), &doc);
        draft.remove(&model.action_of(unit, id));
        return;
    }
    if doc.status == ActionStatus::Cancelled && record.outcome == Outcome::Skipped {
        return; // the unit received the cancellation in time
    }
    let is_aborted = doc.status == ActionStatus::Aborting && record.outcome != Outcome::Ok;
    let ActionWrites { results, process, failed } = &record.writes.action;
    doc.failure = match (refusal, failed, &record.outcome) {
        (Some(refusal), ..) => Some(ActionFailure::Refused { refusal: Box::new(refusal.clone()) }),
        (None, Some(message), _) => Some(ActionFailure::ActionFail { message: message.clone() }),
        (None, None, Outcome::Failed { reason, .. }) => {
            Some(ActionFailure::Process { reason: reason.clone() })
        }
        (None, None, Outcome::Missing) => Some(ActionFailure::NoProgram),
        (None, None, Outcome::Ok | Outcome::Skipped) => None,
    };
    doc.status = match (is_aborted, &doc.failure) {
        (true, _) => ActionStatus::Aborted,
        (false, Some(_)) => ActionStatus::Failed,
        (false, None) => ActionStatus::Completed,
    };
    doc.results.extend(results.clone());
    doc.process = process.clone();
    doc.started_ms.get_or_insert(record.at_ms);
    doc.completed_ms = Some(record.at_ms);
    append_log_lines(&mut doc, &record.reports);
    draft.put(&model.action(id), &doc);
    draft.remove(&model.action_of(unit, id));
}

/// Fails an action whose writes were refused, whatever its own outcome was (spec/hook-tools.md 3).
pub(crate) fn finish_refused(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: u64,
    record: &Record,
    refusal: &RefusalReason,
) {
    let mut refused = record.clone();
    refused.writes.action.process.get_or_insert_default().exit_code = 1;
    finish_with(draft, model, unit, id, &refused, Some(refusal));
}

/// The last number that was granted to an action of the model.
pub(crate) fn last_granted(draft: &mut Draft, model: Model) -> u64 {
    draft.get(&model.sequence(SEQUENCE)).unwrap_or(0)
}

/// Fails the enqueued actions that a resynchronising unit has passed: see [`fail_lost`].
pub(crate) fn fail_passed(draft: &mut Draft, model: Model, unit: Uuid, last: u64, at_ms: i64) {
    fail_lost(draft, model, unit, last, ENQUEUED_MAX, at_ms);
}

/// Fails enqueued actions whose numbers the unit has passed. A restored store has no record of them; whether the
/// unit ran them is unknown, and no action is run twice.
fn fail_lost(draft: &mut Draft, model: Model, unit: Uuid, last: u64, most: usize, at_ms: i64) {
    for (key, _) in draft.page::<ActionStatus>(&model.actions_of(unit), "", most) {
        let Some(id) = last_number(&key).filter(|id| *id <= last) else {
            continue;
        };
        if let Some(mut doc) = unfinished(draft, model, unit, id) {
            fail_without_record(&mut doc, ActionFailure::Lost, at_ms);
            draft.put(&model.action(id), &doc);
            draft.remove(&model.action_of(unit, id));
        }
    }
}

/// Fails an action without a record of its own. Parameters and log are deleted, so that many such documents
/// fit into a transaction.
fn fail_without_record(doc: &mut ActionDoc, failure: ActionFailure, at_ms: i64) {
    doc.status = ActionStatus::Failed;
    doc.completed_ms = Some(at_ms);
    doc.failure = Some(failure);
    doc.params.clear();
    doc.log.clear();
}

/// Whether an action is completed. Only completed actions are subject to the limits of their number.
pub fn is_completed(reader: &dyn Reader, stored: &StoredDocument) -> bool {
    parse::<ActionDoc>(reader, stored).is_some_and(|action| action.status.is_final())
}

/// Deletes those of these actions that are completed; the keys are at most a page.
///
/// 1. An action is cancelled before it has started, and the janitor chooses it.
/// 2. Its unit reports that it had started the action before the cancellation: it is being aborted.
/// 3. The janitor deletes the actions it has chosen, but must keep this one.
pub fn delete_completed(draft: &mut Draft, keys: &[String]) {
    for key in keys.iter().take(PAGE_MAX).map(|key| Key::<ActionDoc>::new(key.clone())) {
        if draft.get(&key).is_some_and(|action| action.status.is_final()) {
            draft.remove(&key);
        }
    }
}

/// Fails all unfinished actions of a unit that is being removed.
pub(crate) fn fail_all(draft: &mut Draft, model: Model, unit: Uuid, now_ms: i64) {
    for (key, _) in draft.page::<ActionStatus>(&model.actions_of(unit), "", UNFINISHED_MAX) {
        let id = last_number(&key).expect("an index ends with the number");
        if let Some(mut doc) = draft.get(&model.action(id)) {
            fail_without_record(&mut doc, ActionFailure::UnitRemoved, now_ms);
            draft.put(&model.action(id), &doc);
        }
        draft.remove(&model.action_of(unit, id));
    }
}
