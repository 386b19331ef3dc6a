//! The commit of a record: the outcome of one operation with all its effects, applied exactly once and in order
//! (design 4; I9, I11).
//!
//! The kinds of writes, and what happens if they cannot be applied:
//!
//! | write | kind | if it cannot be applied |
//! |---|---|---|
//! | own bag, scope left, charm state, closed ports | unconditional | dropped: what it belongs to is removed |
//! | application's bag | conditional | refused: the unit is not the leader |
//! | opened ports | conditional | refused: another unit of the machine has them, or no such endpoint |
//! | secrets | conditional | refused: no owner or leader, taken label, limit; dropped if removed |
//! | storage | conditional | refused: more than the charm declares, or a limit |
//! | scope entered | conditional | refused: the unit or the relation is not alive, the relation is suspended |
//! | subordinate of an entered scope | conditional | refused: an earlier one still exists, the machine is full |
//! | dead | conditional | refused: scopes or subordinates are left |
//! | statuses, log lines, workload version, the line about the end of a hook | report | always stored; ordered by (run, call) |
//!
//! A refusal refuses all writes of its record; its reports, its outcome and the answer are stored nevertheless.
//! Called by the unit agent's handlers, and by dry runs.

mod refused_writes;

use self::refused_writes::{CommitContext, existing_relation};
use crate::agents::own_bags::strip_own_bags;
use crate::agents::record_bounds::{require_length, shown};
use crate::agents::record_validation::{EarlyReport, Valid, require_lost_action, require_run, validate};
use crate::agents::replica::{check_order, replica_or_empty};
use crate::agents::reported_time::ReportedTimeBounds;
use crate::agents::secret_writes::{self, EndedSecretHook};
use crate::agents::session::{self, AgentSession};
use crate::agents::teardown;
use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{BagDoc, Model, OpenPortsDoc, ReplicaDoc, UnitDoc};
use crate::documents::refusal::{Code, Refusal};
use crate::lifecycle::creation::Creation;
use crate::lifecycle::storage::{self, StorageOwner};
use crate::lifecycle::{action, archive, leadership, relation, scope, unit};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::operation::{Hook, Operation, RelationEvent};
use crate::terms::owner::Owner;
use crate::terms::port_range::{PORT_RANGES_MAX, range_count};
use crate::terms::refusal::RefusalReason;
use crate::terms::refusal::record::RecordRefusal;
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::secret::SecretId;
use crate::terms::settings;
use crate::terms::storage::{StorageDirective, StorageEvent, StorageId};
use crate::transitions::run_reports;
use crate::transitions::run_reports::{LogLines, LoggedEnd, RefusedRecord, ReportsOfRun};
use crate::unit::hook_context::{BagWrites, Ports};
use crate::unit::local::{Event, Local};
use crate::unit::record::{CommitOutcome, DroppedWrite, Outcome, Record, RunReport};

/// Applies one record of the unit's newest session at `creation.now_ms`, by the clock of the controller. `unopened` is a
/// secret whose content in the record the controller cannot open: no key of it has sealed the content, or for something
/// else. The record's writes are refused then, so that its hook runs again, and seals the content anew.
///
/// Repeating the last record, with the same sequence number and digest, returns the same result and changes nothing.
///
/// # Errors
/// [`Code::Forked`](crate::documents::refusal::Code) for another digest at the same or an earlier sequence number, or
/// for a record that does not follow the last one; `Code::Gap` for a later sequence number, and for a record that ends
/// an Alive unit; `Code::Invalid` for what no correct agent sends; and the errors of [`session::check_epoch`].
pub fn commit(
    draft: &mut Draft,
    session: AgentSession,
    record: &Valid<Record>,
    unopened: Option<SecretId>,
    log_lines: LogLines,
    creation: Creation,
) -> Result<CommitOutcome, Refusal> {
    let Creation { now_ms, ids } = creation;
    let AgentSession { model, unit, .. } = session;
    let doc = session::check_epoch(draft, session)?;
    let stored = replica_or_empty(draft, model, unit, &doc);
    if stored.is_last(record) {
        return Ok(stored.outcome);
    }
    check_order(&stored, record)?;
    validate(unit, &doc, &stored, record)?;
    require_length(range_count(&record.writes.ports.applied_to(&stored.local.ports)), PORT_RANGES_MAX)?;
    require_granted(draft, model, unit, &doc, record)?;
    teardown::require_requested(draft, model, unit, &doc, record)?;

    let mut local = record.resync_local.as_deref().unwrap_or(&stored.local).clone();
    local.sequence = record.sequence - 1;
    if record.resync_local.is_some() {
        local.store_generation = Some(session.store_generation); // it is the last resync with this one
    }
    let sent: &Record = record;
    let timed = ReportedTimeBounds::of(&doc, now_ms).record(sent);
    let record: &Record = &timed;
    let context = CommitContext { id: unit, doc: &doc, record, local: &stored.local, unopened, now_ms };
    let mut committed = CommitOutcome::default();
    let mut dropped = Vec::new();
    let applied = draft.attempt(|draft| apply_conditional(draft, model, &context, ids, &mut dropped));
    match applied {
        Ok(()) => committed.dropped = dropped,
        Err(refusal) => committed.refusal = Some(refusal),
    }
    local.apply(&Event::Finished(sent.clone()));
    // The draft does not contain the revision of this transaction; 0 means visible in every later view. The
    // controller does not schedule retries either: an agent that takes over the replica after a refused record does
    // not retry until a user resolves the error.
    let refused = committed.refusal.clone();
    local.apply(&Event::Acknowledged {
        sequence: record.sequence,
        revision: 0,
        refusal: refused,
        retry: None,
    });
    if local.is_tearing_down() {
        // a unit may be Dying because of its application, its principal or its machine only
        unit::resume_teardown(draft, model, unit);
    }
    match (&committed.refusal, &record.operation) {
        (None, _) => apply_effects(draft, model, &context, &local, &mut committed.dropped),
        (Some(refusal), Operation::Action { id, .. }) => {
            action::finish_refused(draft, model, unit, *id, record, refusal);
        }
        (Some(_), _) => {}
    }
    let end = LoggedEnd::of(record, committed.refusal.as_ref());
    let reports = ReportsOfRun { run: record.run, reports: &record.reports, end };
    committed.dropped.extend(run_reports::apply(draft, model, unit, &doc, reports, log_lines));
    run_reports::derive_statuses(draft, model, unit, record, &local);

    let episode = local.episode().map(|episode| episode.id);
    if draft.get(&model.resolved(unit)).is_some_and(|mark| Some(mark.episode) != episode) {
        draft.remove(&model.resolved(unit));
    }
    strip_own_bags(&mut local);
    let assigned_archive = assigned_archive(draft, model, &doc, &stored, &local);
    if let Some(sha256) = assigned_archive.as_ref().filter(|_| assigned_archive != stored.assigned_archive) {
        archive::record_use(draft, model, unit, sha256);
    }
    let resync_ms = record.resync_local.as_ref().map(|_| now_ms).or(stored.resync_ms);
    let replica = ReplicaDoc { outcome: committed, assigned_archive, resync_ms, local };
    draft.put(&model.replica(unit), &replica);
    Ok(replica.outcome)
}

/// Refuses a record that names an entity which was not granted to the unit: an action that was never enqueued, or a
/// relation with another number or endpoint.
fn require_granted(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    record: &Record,
) -> Result<(), Refusal> {
    let last_action = record.resync_local.as_ref().and_then(|published| published.last_action);
    match &record.operation {
        Operation::Action { id, .. } if draft.get(&model.action_of(unit, *id)).is_none() => {
            require_lost_action(*id, action::last_granted(draft, model))
        }
        Operation::Resync => {
            require_lost_action(last_action.unwrap_or(0), action::last_granted(draft, model))
        }
        Operation::EnterScope { relation: number, uuid, local_endpoint, .. } => {
            let relation = draft.get(&model.relation(*uuid));
            let end = relation.as_ref().and_then(|relation| relation.end_of(doc.application));
            let is_granted = relation.as_ref().is_none_or(|relation| relation.number == *number)
                && end.is_none_or(|end| end.endpoint == local_endpoint.endpoint);
            if is_granted {
                return Ok(());
            }
            let (relation, number, endpoint) = (*uuid, *number, shown(&local_endpoint.endpoint));
            Err(RecordRefusal::OtherRelation { relation, number, endpoint }.into())
        }
        _ => Ok(()),
    }
}

/// The archive that the unit runs after a record, if the controller has assigned it to the application. The digest in
/// the record is not sufficient: a unit could name the archive of another charm.
fn assigned_archive(
    draft: &mut Draft,
    model: Model,
    doc: &UnitDoc,
    stored: &ReplicaDoc,
    local: &Local,
) -> Option<String> {
    let runs = &local.charm.as_ref()?.sha256;
    if stored.assigned_archive.as_ref() == Some(runs) || stored.local.charm == local.charm {
        return stored.assigned_archive.clone();
    }
    let charm = draft.get(&model.application_charm(doc.application))?;
    charm.assigns(runs).then(|| runs.clone())
}

/// Stores reports of a run before it has finished, and that it has started if `executing` names what it runs. Returns
/// what was dropped, and why. Reports of a run whose record was applied are ignored, because the record contained all
/// of them.
///
/// # Errors
/// If a newer agent has attached, the run is too far ahead, or the unit does not exist.
pub fn apply_report(
    draft: &mut Draft,
    session: AgentSession,
    report: &Valid<EarlyReport>,
    log_lines: LogLines,
    now_ms: i64,
) -> Result<Vec<DroppedWrite>, Refusal> {
    let AgentSession { model, unit, .. } = session;
    let doc = session::check_epoch(draft, session)?;
    let last_run = draft.get(&model.replica(unit)).map_or(0, |replica| replica.local.run);
    let EarlyReport { run, reports, executing, .. } = &**report;
    require_run(last_run, *run)?;
    if is_record_applied(draft, model, unit, *run) {
        return Ok(Vec::new());
    }
    let timed = ReportedTimeBounds::of(&doc, now_ms).reports(reports);
    let reports: &[RunReport] = &timed;
    let of_run = ReportsOfRun { run: *run, reports, end: None };
    let dropped = run_reports::apply(draft, model, unit, &doc, of_run, log_lines);
    action::log(draft, model, unit, reports);
    if let Some(activity) = executing {
        run_reports::set_executing(draft, model, unit, *run, activity, now_ms);
        action::set_running(draft, model, unit, activity, now_ms);
    }
    Ok(dropped)
}

/// Since when a unit runs what it reports, by the clock of the controller: not before the unit was created, whatever the
/// agent reports, and not later than now.
pub fn executing_since(
    documents: &mut impl Documents,
    session: AgentSession,
    report: &EarlyReport,
    now_ms: i64,
) -> i64 {
    let doc = documents.document(&session.model.unit(session.unit));
    let since_ms = now_ms.saturating_sub_unsigned(report.executing_for_ms);
    doc.map_or(now_ms, |doc| ReportedTimeBounds::of(&doc, now_ms).bounded(since_ms))
}

/// Stores that a record was refused, if it can never be applied: until another record is applied, the unit is shown in
/// error because of it (spec F.5).
///
/// # Errors
/// If a newer agent has attached, or the unit does not exist.
pub fn record_refused(
    draft: &mut Draft,
    session: AgentSession,
    record: RefusedRecord,
    at_ms: i64,
) -> Result<(), Refusal> {
    session::check_epoch(draft, session)?;
    if record.reason.code() == Code::Invalid {
        run_reports::set_refused(draft, session.model, session.unit, record, at_ms);
    }
    Ok(())
}

/// Whether the record of a run was applied.
fn is_record_applied(draft: &mut Draft, model: Model, unit: Uuid, run: u64) -> bool {
    draft.get(&model.replica(unit)).is_some_and(|replica| replica.local.has_recorded(run))
}

/// Whether the writes of the record are applied: its operation advanced, or was an action or commands that succeeded.
fn applies_writes(record: &Record) -> bool {
    match &record.operation {
        Operation::Action { .. } | Operation::Commands(_) => record.outcome == Outcome::Ok,
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Hook(_)
        | Operation::Resync
        | Operation::SetDead => record.outcome.advances(),
    }
}

/// Applies the conditional writes, and sets the unit Dead or adds it to a scope, if that is the operation of the record. If
/// it refuses, the caller takes back what it has written.
fn apply_conditional(
    draft: &mut Draft,
    model: Model,
    context: &CommitContext,
    ids: &mut dyn FnMut() -> Uuid,
    dropped: &mut Vec<DroppedWrite>,
) -> Result<(), RefusalReason> {
    if !applies_writes(context.record) {
        return Ok(());
    }
    if let Some(too_large) = refused_writes::too_large_bag(draft, model, context) {
        return Err(too_large.into());
    }
    if !context.record.is_conditional() {
        return Ok(());
    }
    let is_leader =
        leadership::is_leader(draft, model, context.id, context.doc, context.record.leader_generation);
    for (number, writes) in &context.record.writes.bags {
        if !writes.application.is_empty()
            && !is_leader
            && existing_relation(draft, model, context.local, *number).is_some()
        {
            let application = &context.doc.application;
            let leader = draft.get(&model.leader(*application)).map(|grant| grant.holder_name);
            return Err(WriteRefusal::NotLeader { unit: context.doc.name.clone(), leader }.into());
        }
    }
    if let Some(unknown) = refused_writes::unknown_endpoint(context) {
        return Err(unknown.into());
    }
    if let Some(conflict) = refused_writes::port_conflict(draft, model, context) {
        return Err(conflict.into());
    }
    if let Some(id) = context.unopened {
        return Err(SecretRefusal::Sealed { id }.into());
    }
    let secrets = &context.record.writes.secrets;
    if !secrets.is_empty() {
        let applied = secret_writes::apply(draft, model, &context.secret_writer(), secrets, ids, dropped);
        applied.map_err(|refusal| *refusal.reason)?;
    }
    for (name, count) in &context.record.writes.storage {
        let directive = StorageDirective { pool: None, count: Some(*count), size_mib: None };
        let creation = Creation { now_ms: context.now_ms, ids: &mut *ids };
        let added = storage::add(draft, model, context.id, name, &directive, creation);
        added.map_err(|refusal| *refusal.reason)?;
    }
    let done = match &context.record.operation {
        Operation::SetDead => unit::set_dead(draft, model, context.id),
        Operation::EnterScope { uuid, settings, .. } => {
            let creation = Creation { now_ms: context.now_ms, ids };
            scope::enter(draft, model, context.id, *uuid, settings, creation)
        }
        Operation::InstallCharm(_)
        | Operation::LeaveScope { .. }
        | Operation::Hook(_)
        | Operation::Action { .. }
        | Operation::Commands(_)
        | Operation::Resync => Ok(()),
    };
    done.map_err(|refusal| *refusal.reason)
}

fn apply_effects(
    draft: &mut Draft,
    model: Model,
    context: &CommitContext,
    after: &Local,
    dropped: &mut Vec<DroppedWrite>,
) {
    if let Operation::Action { id, .. } = &context.record.operation {
        action::finish(draft, model, context.id, *id, context.record);
    }
    if !applies_writes(context.record) {
        return;
    }
    let without_room = refused_writes::relations_without_room(draft, model, context);
    for (number, writes) in &context.record.writes.bags {
        match existing_relation(draft, model, context.local, *number) {
            Some(_) if without_room.contains(number) => {
                dropped.push(DroppedWrite::SettingsTooLarge { relation: *number });
            }
            // a restored store may have refused the entry into the scope: no bag without initial settings (I13)
            Some(id) if draft.get(&model.scope_of(context.id, id)).is_none() => {
                dropped.push(DroppedWrite::SettingsOutOfScope { relation: *number });
            }
            Some(id) => write_bags(draft, model, context, id, writes),
            None => dropped.push(DroppedWrite::SettingsOfRemovedRelation { relation: *number }),
        }
    }
    if !context.record.writes.ports.is_empty() {
        write_ports(draft, model, context, &after.ports);
    }
    match &context.record.operation {
        Operation::LeaveScope { uuid, .. } => relation::leave_scope(draft, model, context.id, *uuid),
        Operation::Hook(Hook::Relation { relation: number, event: RelationEvent::Broken, .. }) => {
            let known = context.local.relations.get(number).expect("a record was checked for this");
            relation::leave_scope(draft, model, context.id, known.uuid);
        }
        Operation::Hook(Hook::Secret { secret, revision, event, .. }) => {
            let (secret, revision, event) = (*secret, *revision, *event);
            let ended = EndedSecretHook { secret, revision, event, now_ms: context.now_ms };
            secret_writes::hook_done(draft, model, &context.secret_writer(), &ended);
        }
        Operation::Hook(Hook::Storage { id, storage: known, event }) => {
            let owner = StorageOwner { id: context.id, doc: context.doc };
            match event {
                StorageEvent::Attached => {
                    storage::record_attached(draft, model, context.id, id, known.instance);
                }
                StorageEvent::Detaching if is_detachment_requested(draft, model, &owner, id) => {
                    storage::record_detached(draft, model, owner, id, known.instance, context.record.at_ms);
                }
                StorageEvent::Detaching => {}
            }
        }
        Operation::Resync => finish_resync(draft, model, context),
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::Hook(_)
        | Operation::Action { .. }
        | Operation::Commands(_)
        | Operation::SetDead => {}
    }
}

/// Whether a user or the end of the unit has requested that it detaches an instance. The record of another detachment has no
/// effect: the instance stays attached, so that a unit cannot add others beyond its limit.
fn is_detachment_requested(draft: &mut Draft, model: Model, unit: &StorageOwner, id: &StorageId) -> bool {
    draft.get(&model.storage(id)).is_some_and(|storage| storage.is_detaching())
        || effective_life::unit_life_of(draft, model, unit.id, unit.doc) != Life::Alive
}

/// Applies the rest of a resync, after its batches: see [`resync`](crate::restore::resync).
fn finish_resync(draft: &mut Draft, model: Model, context: &CommitContext) {
    let Some(published) = &context.record.resync_local else { return };
    if let Some(last) = published.last_action {
        action::fail_passed(draft, model, context.id, last, context.record.at_ms);
    }
    write_ports(draft, model, context, &published.ports);
    run_reports::resync_status(draft, model, context.id, context.record, published);
}

/// Applies changes to the unit's and the application's bag. A change without effect increases no counter (I7).
fn write_bags(draft: &mut Draft, model: Model, context: &CommitContext, id: Uuid, writes: &BagWrites) {
    let UnitDoc { name, application, .. } = context.doc;
    let of_unit = (context.id, Owner::Unit(name.clone()), &writes.unit);
    let of_application = (*application, Owner::Application(name.application.clone()), &writes.application);
    for (holder, owner, change) in [of_unit, of_application] {
        if change.is_empty() {
            continue;
        }
        let mut bag = draft.get(&model.bag(id, holder)).unwrap_or_else(|| BagDoc::new(owner));
        if settings::apply(&mut bag.values, change) {
            bag.counter += 1;
            draft.put(&model.bag(id, holder), &bag);
        }
    }
}

fn write_ports(draft: &mut Draft, model: Model, context: &CommitContext, open: &Ports) {
    if draft.get(&model.ports(context.id)).unwrap_or_default() == *open {
        return;
    }
    let on = model.machine_port(context.doc.machine, context.id);
    if open.is_empty() {
        draft.remove(&model.ports(context.id));
        draft.remove(&on);
        return;
    }
    draft.put(&model.ports(context.id), open);
    draft.put(&on, &OpenPortsDoc { unit: context.doc.name.clone(), ports: open.clone() });
}
