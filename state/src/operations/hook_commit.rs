//! One operation's outcome with all its effects, applied exactly once, in order (design 4; I9, I11).
//!
//! The table of writes, and what happens to each kind:
//!
//! | write | kind | when it cannot be applied |
//! |---|---|---|
//! | own bag, scope left, charm state, closed ports | unconditional | dropped with a reason: what it belongs to is gone |
//! | application's bag | conditional | refused: the unit is not the leader |
//! | opened ports | conditional | refused: another unit of the machine has them, or no such endpoint |
//! | scope entered | conditional | refused: the unit or the relation is not alive, the relation is suspended |
//! | subordinate that comes with it | conditional | refused: an older one is still there, the machine is full |
//! | dying | conditional | refused: scopes or subordinates are left |
//! | statuses, log lines, workload version | said | always stand; ordered by (run, call) |
//!
//! A refusal refuses all writes of its record; what was said, the outcome and the answer are stored all the same.

use crate::charm::JUJU_INFO;
use crate::documents::draft::Draft;
use crate::documents::keys::{Model, OpenPortsDoc, ReplicaDoc, UnitDoc};
use crate::documents::refusal::{Code, Refusal};
use crate::lifecycle::machine::UNITS_MAX;
use crate::lifecycle::{relation, unit};
use crate::operations::{action, leadership, run_reports, session};
use crate::restore::resync;
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::port_range::PortRange;
use crate::terms::settings::{self, BagChange};
use crate::unit::activity::Activity;
use crate::unit::hook::{ALL_ENDPOINTS, BagWrites, Ports};
use crate::unit::local::{Event, Local, Step};
use crate::unit::operation::{Hook, Operation, RelationEvent};
use crate::unit::record::{Outcome, Record, SAID_MAX, Said};

/// What became of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Its conditional writes were refused, and so all of them: the hook has failed for this reason.
    pub refusal: Option<String>,
    /// Unconditional writes that had nothing left to apply to, and why.
    pub dropped: Vec<String>,
}

/// The unit a record is of.
struct Of<'a> {
    id: Uuid,
    doc: &'a UnitDoc,
    record: &'a Record,
    /// The unit's memory before the record.
    local: &'a Local,
}

/// Applies one record of the unit's newest session. The same sequence and digest again: the same answer, nothing
/// changed. Another digest at the same sequence, or an older sequence: [`Code::Forked`]. A hole: [`Code::Gap`].
pub fn commit(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    epoch: u64,
    record: &Record,
    ids: &mut dyn FnMut() -> Uuid,
) -> Result<Committed, Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    let doc = draft.get(&model.unit(unit)).expect("a unit with a session exists");
    let stored = stored(draft, model, unit, &doc);
    let digest = record.digest();
    if record.sequence == stored.sequence && digest == stored.digest {
        return Ok(Committed { refusal: stored.refusal, dropped: stored.dropped });
    }
    in_order(&stored, record)?;
    well_formed(unit, &stored.local, record)?;

    let mut local = record.memory.as_deref().unwrap_or(&stored.local).clone();
    local.sequence = record.sequence - 1;
    let of = Of { id: unit, doc: &doc, record, local: &stored.local };
    let mut committed = Committed { refusal: refusal(draft, model, &of, ids)?, dropped: Vec::new() };
    local.apply(&Event::Finished(record.clone()));
    // The revision is of this transaction, which the draft cannot know; 0 = visible in every view to come. Nor does
    // the controller count retries: a restored agent whose record was refused rests until a person resolves it.
    let refused = committed.refusal.clone();
    local.apply(&Event::Acknowledged {
        sequence: record.sequence,
        revision: 0,
        refusal: refused,
        retry: None,
    });
    if local.is_tearing_down() {
        unit::resume_teardown(draft, model, unit);
    }
    match (&committed.refusal, &record.operation) {
        (None, _) => effects(draft, model, &of, (&local, ids), &mut committed.dropped),
        (Some(refusal), Operation::Action { id, .. }) => {
            action::finish_refused(draft, model, unit, *id, record, refusal);
        }
        (Some(_), _) => {}
    }
    run_reports::take(draft, model, (unit, &doc), (record.run, &record.said), &mut committed.dropped);
    run_reports::derive(draft, model, unit, record, &local);

    let episode = local.episode().map(|episode| episode.id);
    if draft.get(&model.resolved(unit)).is_some_and(|mark| Some(mark.episode) != episode) {
        draft.remove(&model.resolved(unit));
    }
    leave_out_bags(&mut local);
    let (refusal, dropped) = (committed.refusal.clone(), committed.dropped.clone());
    draft.put(
        &model.replica(unit),
        &ReplicaDoc { sequence: record.sequence, digest, refusal, dropped, local },
    );
    Ok(committed)
}

fn stored(draft: &mut Draft, model: Model, unit: Uuid, doc: &UnitDoc) -> ReplicaDoc {
    draft.get(&model.replica(unit)).unwrap_or_else(|| ReplicaDoc {
        sequence: 0,
        digest: String::new(),
        refusal: None,
        dropped: Vec::new(),
        local: Local::new(unit, doc.name.clone()),
    })
}

/// The record may be applied now; false = it was before.
pub(crate) fn is_next(draft: &mut Draft, model: Model, unit: Uuid, record: &Record) -> Result<bool, Refusal> {
    let doc = draft.get(&model.unit(unit)).expect("a unit with a session exists");
    let stored = stored(draft, model, unit, &doc);
    if record.sequence == stored.sequence && record.digest() == stored.digest {
        return Ok(false);
    }
    in_order(&stored, record)?;
    well_formed(unit, &stored.local, record)?;
    Ok(true)
}

/// What run `run` says before it ends; the answer is what was dropped, and why. A run whose record was applied has
/// said it all there: nothing is taken from a late message about it.
pub fn report(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    epoch: u64,
    run: u64,
    said: &[Said],
) -> Result<Vec<String>, Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    if said.len() > SAID_MAX {
        let message = format!("{} lines and statuses in one message, at most {SAID_MAX}", said.len());
        return Err(Refusal::new(Code::Invalid, message));
    }
    let doc = draft.get(&model.unit(unit)).expect("a unit with a session exists");
    let mut dropped = Vec::new();
    if !is_over(draft, model, unit, run) {
        run_reports::take(draft, model, (unit, &doc), (run, said), &mut dropped);
        action::log(draft, model, unit, said);
    }
    Ok(dropped)
}

/// A record that can never be applied: until another one is, the unit is shown in error for it (spec F.5).
pub fn refused(
    draft: &mut Draft,
    model: Model,
    (unit, epoch): (Uuid, u64),
    (record, why): ((u64, u64), &str),
    at_ms: i64,
) -> Result<(), Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    run_reports::refused(draft, model, unit, (record, why), at_ms);
    Ok(())
}

/// Run `run` goes on long enough to be told of.
pub fn begun(draft: &mut Draft, model: Model, unit: Uuid, (run, activity): (u64, &Activity), at_ms: i64) {
    if !is_over(draft, model, unit, run) {
        run_reports::begun(draft, model, unit, (run, activity), at_ms);
        action::executes(draft, model, unit, activity, at_ms);
    }
}

/// Whether the run's record was applied. 1. A hook runs, and the store is restored; 2. its unit restates, so that the
/// replica knows of the run; 3. the hook calls juju-reboot --now, and what it said has no record (cargo sim 61500700).
fn is_over(draft: &mut Draft, model: Model, unit: Uuid, run: u64) -> bool {
    draft.get(&model.replica(unit)).is_some_and(|replica| {
        let runs = matches!(&replica.local.step, Step::Started(running) if running.number == run);
        replica.local.run >= run && !runs
    })
}

/// The replica is stored without the bags this unit wrote: they are documents of their own, and several large ones
/// would outgrow a transaction. [`restore_bags`] puts them back. What the leader wrote is in the view the agent gets.
fn leave_out_bags(local: &mut Local) {
    for relation in local.relations.values_mut() {
        relation.bag.clear();
        relation.pending_application_writes = None;
    }
}

/// The opposite of [`leave_out_bags`], for an attaching agent. The replica was read in this draft, and no bag of the
/// unit is written unless the replica is, but for one that a restatement under way has brought, which its end brings
/// again. Those of relations that are gone are cleared away.
pub(crate) fn restore_bags(draft: &Draft, model: Model, unit: Uuid, local: &mut Local) {
    for relation in local.relations.values_mut() {
        let bag = draft.get_untracked(&model.bag(relation.uuid, unit));
        relation.lost_bag_changes = bag.is_none().then(BagChange::new);
        relation.bag = bag.map(|bag| bag.values).unwrap_or_default();
    }
}

fn in_order(stored: &ReplicaDoc, record: &Record) -> Result<(), Refusal> {
    let (given, expected) = (record.sequence, stored.sequence + 1);
    if given < expected {
        let message = format!("record {given} was applied with another content");
        return Err(Refusal::new(Code::Forked, message).hint("two agents have written for this unit"));
    }
    // 1. A unit's folder is copied, both go on apart while the controller is away. 2. The store is restored. 3. The one
    // attaches and sends; the other, whose unsent records have the next numbers, attaches.
    if given == expected && !record.is_successor_of(&stored.digest) {
        let message =
            format!("record {given} does not follow the record {} that was applied", stored.sequence);
        return Err(Refusal::new(Code::Forked, message).hint("two agents have written for this unit"));
    }
    // An agent that restates all it has published follows a store restored from an older copy: what lies between
    // was lost with that store.
    if given > expected && record.operation != Operation::Resync {
        let message = format!("record {given} came before record {expected}");
        return Err(Refusal::new(Code::Gap { expected }, message));
    }
    Ok(())
}

/// What no agent sends; taken, it would break a promise that `Local` asserts.
fn well_formed(unit: Uuid, local: &Local, record: &Record) -> Result<(), Refusal> {
    let bad = |what: String| Err(Refusal::new(Code::Invalid, what));
    if record.said.len() > SAID_MAX {
        return bad(format!("{} lines and statuses, at most {SAID_MAX}", record.said.len()));
    }
    if record.memory.is_some() != (record.operation == Operation::Resync) {
        return bad("a memory goes with a restatement, and only with one".to_owned());
    }
    if record.memory.as_ref().is_some_and(|memory| memory.unit != unit || !memory.outbox.is_empty()) {
        return bad("a restatement of another unit".to_owned());
    }
    let memory = record.memory.as_deref();
    if [Some(record.sequence), Some(record.run), memory.map(|memory| memory.run)].contains(&Some(u64::MAX)) {
        return bad("sequences and runs end before that".to_owned());
    }
    let owed_to_nobody = |local: &Local| {
        let mut relations = local.relations.values();
        relations
            .any(|known| known.pending_changed.as_ref().is_some_and(|unit| !known.members.contains_key(unit)))
    };
    if memory.is_some_and(owed_to_nobody) {
        return bad("a memory that owes a changed to a unit that is no member".to_owned());
    }
    match &record.operation {
        Operation::Hook(Hook::Relation { relation, .. }) if !local.relations.contains_key(relation) => {
            bad(format!("a hook of relation {relation}, whose scope the unit never entered"))
        }
        _ => Ok(()),
    }
}

/// The record's writes are to be applied: its operation advanced, or was an action that succeeded.
fn publishes(record: &Record) -> bool {
    match &record.operation {
        Operation::Action { .. } => record.outcome == Outcome::Ok,
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::LeaveScope { .. }
        | Operation::Hook(_)
        | Operation::Resync
        | Operation::SetDead => record.outcome.advances(),
    }
}

/// Why the conditional writes cannot be made, if they cannot. Dying and entering a scope are done on the way.
fn refusal(
    draft: &mut Draft,
    model: Model,
    of: &Of,
    ids: &mut dyn FnMut() -> Uuid,
) -> Result<Option<String>, Refusal> {
    if !publishes(of.record) || !of.record.is_conditional() {
        return Ok(None);
    }
    let leads = leadership::leads(draft, model, of.id, of.doc, of.record.generation);
    for (number, writes) in &of.record.writes.bags {
        if !writes.application.is_empty() && !leads && standing(draft, model, of.local, *number).is_some() {
            let application = &of.doc.application;
            let leader = draft.get(&model.leader(*application)).map(|grant| grant.holder_name.to_string());
            let leader = match leader {
                Some(name) if name == of.doc.name.to_string() => "it was not all the time".to_owned(),
                Some(name) => format!("{name} is"),
                None => "nobody is".to_owned(),
            };
            let text =
                format!("cannot write application settings: {} is not the leader ({leader})", of.doc.name);
            return Ok(Some(text));
        }
    }
    if let Some(unknown) = unknown_endpoint(of) {
        return Ok(Some(unknown));
    }
    if let Some(conflict) = port_conflict(draft, model, of) {
        return Ok(Some(conflict));
    }
    let done = match &of.record.operation {
        Operation::SetDead => unit::set_dead(draft, model, of.id),
        Operation::EnterScope { uuid, settings, .. } => {
            relation::enter_scope(draft, model, of.id, *uuid, settings, (of.record.at_ms, ids))
        }
        Operation::InstallCharm(_)
        | Operation::LeaveScope { .. }
        | Operation::Hook(_)
        | Operation::Action { .. }
        | Operation::Resync => Ok(()),
    };
    Ok(done.err().map(|refusal| refusal.message))
}

/// A range to open at an endpoint that the unit's charm does not declare (spec/hook-tools.md 2.4).
fn unknown_endpoint(of: &Of) -> Option<String> {
    let declared = &of.local.charm.as_ref()?.endpoints;
    let mut named = of.record.writes.ports.open.keys();
    let unknown =
        named.find(|name| *name != ALL_ENDPOINTS && *name != JUJU_INFO && !declared.contains(*name))?;
    Some(format!("cannot open ports (unit \"{}\"): endpoint \"{unknown}\" not found", of.doc.name))
}

/// A range to open meets one that another unit of the machine has open.
fn port_conflict(draft: &mut Draft, model: Model, of: &Of) -> Option<String> {
    let wanted = ranges(&of.record.writes.ports.open);
    if wanted.is_empty() {
        return None;
    }
    let own = model.machine_port(of.doc.machine, of.id);
    for (key, other) in draft.page::<OpenPortsDoc>(&model.machine_ports_prefix(of.doc.machine), "", UNITS_MAX)
    {
        for theirs in ranges(&other.ports) {
            if let Some(range) = wanted.iter().find(|range| key != own.text() && range.conflicts(theirs)) {
                let (unit, other) = (&of.doc.name, &other.unit);
                return Some(format!(
                    "cannot open {range} (unit \"{unit}\"): port range conflicts with {theirs} (unit \"{other}\")"
                ));
            }
        }
    }
    None
}

fn ranges(ports: &Ports) -> Vec<PortRange> {
    ports.values().flatten().filter_map(|text| text.parse().ok()).collect()
}

/// The relation of this number that the unit knows, if it is still there.
fn standing(draft: &mut Draft, model: Model, local: &Local, number: RelationNumber) -> Option<Uuid> {
    let id = local.relations.get(&number)?.uuid;
    draft.get(&model.relation(id)).map(|_| id)
}

fn effects(
    draft: &mut Draft,
    model: Model,
    of: &Of,
    (after, ids): (&Local, &mut dyn FnMut() -> Uuid),
    dropped: &mut Vec<String>,
) {
    if let Operation::Action { id, .. } = &of.record.operation {
        action::finish(draft, model, of.id, *id, of.record);
    }
    if !publishes(of.record) {
        return;
    }
    for (number, writes) in &of.record.writes.bags {
        match standing(draft, model, of.local, *number) {
            // a restored store may have refused the unit its scope: no bag without initial settings (I13)
            Some(id) if draft.get(&model.scope_of(of.id, id)).is_none() => {
                dropped.push(format!("settings of relation {number}: the unit is not in its scope"));
            }
            Some(id) => write_bags(draft, model, of, id, writes),
            None => dropped.push(format!("settings of relation {number}: the relation is gone")),
        }
    }
    if !of.record.writes.ports.is_empty() {
        write_ports(draft, model, of, &after.ports);
    }
    match &of.record.operation {
        Operation::LeaveScope { uuid, .. } => relation::leave_scope(draft, model, of.id, *uuid),
        Operation::Hook(Hook::Relation { relation: number, event: RelationEvent::Broken, .. }) => {
            let known = of.local.relations.get(number).expect("a record was checked for this");
            relation::leave_scope(draft, model, of.id, known.uuid);
        }
        Operation::Resync => restate(draft, model, of, ids, dropped),
        Operation::InstallCharm(_)
        | Operation::EnterScope { .. }
        | Operation::Hook(_)
        | Operation::Action { .. }
        | Operation::SetDead => {}
    }
}

/// The end of a restatement: see [`restate`](crate::restore::resync).
fn restate(
    draft: &mut Draft,
    model: Model,
    of: &Of,
    ids: &mut dyn FnMut() -> Uuid,
    dropped: &mut Vec<String>,
) {
    let Some(memory) = &of.record.memory else { return };
    dropped.extend(resync::enter_last(draft, model, of.id, memory, (of.record.at_ms, ids)));
    if let Some(last) = memory.last_action {
        action::restate(draft, model, of.id, last, of.record.at_ms);
    }
    write_ports(draft, model, of, &memory.ports);
    run_reports::restate(draft, model, of.id, of.record, memory);
}

/// A change that changes nothing bumps no counter (I7).
fn write_bags(draft: &mut Draft, model: Model, of: &Of, id: Uuid, writes: &BagWrites) {
    let unit = (of.id, of.doc.name.to_string(), &writes.unit);
    let application = (of.doc.application, of.doc.name.application.clone(), &writes.application);
    for (owner, name, change) in [unit, application] {
        if change.is_empty() {
            continue;
        }
        let mut bag = draft.get(&model.bag(id, owner)).unwrap_or_default();
        if settings::apply(&mut bag.values, change) {
            bag.owner = name;
            bag.counter += 1;
            draft.put(&model.bag(id, owner), &bag);
        }
    }
}

fn write_ports(draft: &mut Draft, model: Model, of: &Of, open: &Ports) {
    if draft.get(&model.ports(of.id)).unwrap_or_default() == *open {
        return;
    }
    let on = model.machine_port(of.doc.machine, of.id);
    if open.is_empty() {
        draft.remove(&model.ports(of.id));
        draft.remove(&on);
        return;
    }
    draft.put(&model.ports(of.id), open);
    draft.put(&on, &OpenPortsDoc { unit: of.doc.name.clone(), ports: open.clone() });
}
