//! Units: added to an application and a machine, destroyed by a user, set Dead by their own agent, removed by
//! the machine agent (spec E.3).
//!
//! A unit name is never used again, a unit that is in a scope or has subordinates is never Dead (I20), and
//! removing a unit removes or advances everything that only waited for it in the same transaction. Called by
//! the handlers of users, the agents' handlers, deployments, the commit of records, forced removal and for fake
//! applications.

use crate::documents::attachment::{Attachment, attachment};
use crate::documents::blockers::{self, EntityId};
use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::fake_application::is_fake_machine;
use crate::documents::prelude::{
    Model, ResolvedDoc, StatusDoc, SubordinateLink, TombstoneDoc, TombstoneKind, UnitDoc, last_id,
};
use crate::documents::refusal::Refusal;
use crate::documents::{sequence, token};
use crate::lifecycle::application;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::machine::{self, MachineRequest};
use crate::lifecycle::pending_reentry;
use crate::lifecycle::relation;
use crate::lifecycle::secret;
use crate::lifecycle::storage::{self, StorageOwner};
use crate::lifecycle::{action, leadership};
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::{ApplicationRefusal, ApplicationRequest};
use crate::terms::refusal::machine::MachineRefusal;
use crate::terms::refusal::storage::StorageRefusal;
use crate::terms::refusal::unit::UnitRefusal;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use crate::terms::storage::StorageId;

/// The most writes of one [`add`]: seven documents of the unit and three of its new machine, and the sequences of unit
/// numbers, machine numbers and addresses. Further units of the same transaction write ten each, so that an empty
/// draft has room for 59 units: 593 of 600 writes.
const ADD_WRITES_MAX: usize = 13;

/// Units that [`add_batch`] adds to an empty draft.
pub const ADDED_PER_TRANSACTION: u32 = 59;

/// The result of a request to destroy a unit, relation or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// Nothing referred to the entity; it is removed.
    Removed,
    /// The entity is Dying; its blockers state what it waits for.
    Dying,
}

/// The unit named `name`.
///
/// # Errors
/// If there is none.
pub fn find(documents: &mut impl Documents, model: Model, name: &UnitName) -> Result<Uuid, Refusal> {
    documents.document(&model.unit_name(name)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, name))
}

/// Adds a unit to an Alive application, on machine `to` or on a new machine; returns its UUID and name, which
/// is never used again (spec E.1 add unit, assign unit; I21). Refused for a subordinate application.
pub fn add(
    draft: &mut Draft,
    model: Model,
    application: Uuid,
    to: Option<&str>,
    now_ms: i64,
    ids: &mut dyn FnMut() -> Uuid,
) -> Result<(Uuid, UnitName), Refusal> {
    let placement = Placement { to, attach: &[] };
    add_placed(draft, model, application, placement, Creation { now_ms, ids })
}

/// Where a unit is added, and with which existing instances of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement<'a> {
    /// The name of its machine. Without it, the unit is added to the machine of the first instance of storage, or to a
    /// new machine.
    pub to: Option<&'a str>,
    /// The storage that is attached to it.
    pub attach: &'a [StorageId],
}

/// The user's `add-unit --attach-storage`: `count` must be 1, because storage is attached to one unit.
///
/// # Errors
/// As [`add`], and if an instance does not exist, is attached, or does not suit the charm; or for several units.
pub fn add_with_storage(
    draft: &mut Draft,
    model: Model,
    application: Uuid,
    count: u32,
    placement: Placement,
    creation: Creation,
) -> Result<(Uuid, UnitName), Refusal> {
    if count != 1 {
        return Err(StorageRefusal::AttachedToSeveral.into());
    }
    add_placed(draft, model, application, placement, creation)
}

/// Adds one unit as [`add`] does, with existing storage.
pub(crate) fn add_placed(
    draft: &mut Draft,
    model: Model,
    application: Uuid,
    Placement { to, attach }: Placement,
    mut creation: Creation,
) -> Result<(Uuid, UnitName), Refusal> {
    let now_ms = creation.now_ms;
    crate::lifecycle::model::require_alive(draft, model)?;
    let owner = application::require_alive(draft, model, application, ApplicationRequest::AddUnit)?;
    if owner.subordinate {
        return Err(UnitRefusal::SubordinateApplication { application: owner.name }.into());
    }
    let is_fake = draft.get(&model.fake_application(application)).is_some();
    let existing = match (to, attach.first()) {
        (Some(_), _) | (None, Some(_)) if is_fake => {
            return Err(ApplicationRefusal::FakePlaced { application: owner.name }.into());
        }
        (None, None) if is_fake => machine_of_fake(draft, model, application),
        (Some(name), _) => Some(machine::find(draft, model, name)?),
        (None, Some(id)) => Some(storage::find(draft, model, id)?.machine),
        (None, None) => None,
    };
    let machine = match existing {
        Some(machine) => {
            machine::require_capacity(draft, model, machine)?;
            if !is_fake && is_fake_machine(draft, model, machine) {
                let machine = to.unwrap_or_default().to_owned();
                return Err(MachineRefusal::WithoutAgent { machine }.into());
            }
            machine
        }
        None => {
            let machine = (creation.ids)();
            let constraints = draft.get(&model.constraints(application)).unwrap_or_default();
            let request = MachineRequest { manual: is_fake, base: owner.requested_base.clone(), constraints };
            machine::add_requested(draft, model, machine, request, now_ms)?;
            machine
        }
    };
    let (id, name) = ((creation.ids)(), next_name(draft, model, &owner.name));
    let doc = UnitDoc {
        name: name.clone(),
        application,
        machine,
        principal: None,
        subordinate_link: None,
        created_ms: now_ms,
    };
    create(draft, model, id, &doc);
    if is_fake {
        let (status, since_ms) = (WorkloadStatus::Active, now_ms);
        draft.put(&model.unit_status(id), &StatusDoc { status, since_ms, ..StatusDoc::default() });
    }
    storage::create_for_unit(draft, model, StorageOwner { id, doc: &doc }, attach, creation.reborrow())?;
    Ok((id, name))
}

/// The machine of the units of a fake application, if it can have another one. It is a manually provisioned machine that
/// never enrols, so that no agent starts for them.
fn machine_of_fake(draft: &mut Draft, model: Model, application: Uuid) -> Option<Uuid> {
    let unit = *draft.ids(&model.units_of(application), 1).first()?;
    let machine = draft.get(&model.unit(unit))?.machine;
    machine::require_capacity(draft, model, machine).ok().map(|()| machine)
}

/// Adds up to `count` units as [`add`] does one after the other: the first on machine `to`, each other one on a new
/// machine. Returns those that fit into the transaction beside what it writes already, at least one if it writes
/// nothing; the caller adds the others in further transactions. A refusal refuses all of them.
pub fn add_batch(
    draft: &mut Draft,
    model: Model,
    application: Uuid,
    count: u32,
    to: Option<&str>,
    creation: Creation,
) -> Result<Vec<(Uuid, UnitName)>, Refusal> {
    let Creation { now_ms, ids } = creation;
    let mut added = Vec::new();
    let writes_of_storage = storage::writes_of_new_unit(draft, model, application);
    for number in 0..count {
        if draft.writes_left() < ADD_WRITES_MAX + writes_of_storage {
            break;
        }
        let to = to.filter(|_| number == 0);
        added.push(add(draft, model, application, to, now_ms, ids)?);
    }
    Ok(added)
}

/// Takes the next unit number of an application, which is never used again.
fn next_name(draft: &mut Draft, model: Model, application: &str) -> UnitName {
    let number = sequence::take(draft, model, &format!("unit/{application}"));
    let number = u32::try_from(number).expect("an application has fewer than 2^32 units in its life");
    UnitName::new(application, number)
}

fn create(draft: &mut Draft, model: Model, id: Uuid, doc: &UnitDoc) {
    draft.put(&model.unit(id), doc);
    draft.put(&model.unit_life(id), &Life::Alive);
    draft.put(&model.unit_name(&doc.name), &id);
    draft.put(&model.unit_of(doc.application, id), &());
    draft.put(&model.machine_unit(doc.machine, id), &());
    if let Some(principal) = doc.principal {
        draft.put(&model.subordinate(principal, doc.application, id), &());
    }
    let (status, since_ms) = (AgentStatus::Allocating, doc.created_ms);
    draft.put(&model.agent_status(id), &StatusDoc { status, since_ms, ..StatusDoc::default() });
    let (status, message) = (WorkloadStatus::Waiting, StatusMessage::WaitingForMachine);
    draft.put(&model.unit_status(id), &StatusDoc { status, message, since_ms, ..StatusDoc::default() });
}

/// Creates the subordinate of a principal that enters a container relation (spec A.12, E.1; scenario 118): on
/// the same machine, and at most one of each subordinate application.
///
/// An existing subordinate that is not Alive refuses (scenario 125), and so does a full machine. The agent
/// receives both conditions in its view and enters again when they have changed.
pub(crate) fn add_subordinate(
    draft: &mut Draft,
    model: Model,
    principal: Uuid,
    doc: &UnitDoc,
    subordinate_link: &SubordinateLink,
    creation: Creation,
) -> Result<(), Refusal> {
    if let Some(there) = draft.any_key(&model.subordinates_of(principal, subordinate_link.subordinate), &[]) {
        let there = last_id(&there).expect("an index ends with an id");
        let life = effective_life::unit_life(draft, model, there)
            .ok_or_else(|| Refusal::not_found(EntityKind::Unit, there))?;
        if life == Life::Alive {
            return Ok(());
        }
        return Err(UnitRefusal::SubordinateNotRemoved { unit: doc.name.clone(), life }.into());
    }
    let application =
        application::require_alive(draft, model, subordinate_link.subordinate, ApplicationRequest::AddUnit)?;
    machine::require_capacity(draft, model, doc.machine)?;
    let (id, name) = ((creation.ids)(), next_name(draft, model, &application.name));
    let unit = UnitDoc {
        name,
        application: subordinate_link.subordinate,
        machine: doc.machine,
        principal: Some(principal),
        subordinate_link: Some(*subordinate_link),
        created_ms: creation.now_ms,
    };
    create(draft, model, id, &unit);
    storage::create_for_unit(draft, model, StorageOwner { id, doc: &unit }, &[], creation)
}

/// The user's `remove-unit` (spec E.3).
///
/// A unit whose agent never attached has had no visible effect: it is removed in this transaction, and a
/// machine agent that has started to deploy it recalls it because of its tombstone (scenarios 165, 166). Any
/// other unit becomes Dying, and its agent does the rest. Repeating the request changes nothing. Refused for a
/// subordinate.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<Destroyed, Refusal> {
    let Some(doc) = draft.get(&model.unit(id)) else {
        return ok_if_removed(draft, model, id).map(|()| Destroyed::Removed);
    };
    if doc.principal.is_some() {
        return Err(UnitRefusal::Subordinate { unit: doc.name }.into());
    }
    if draft.get(&model.unit_life(id)) != Some(Life::Alive) {
        return Ok(Destroyed::Dying);
    }
    if has_never_attached(draft, model, id) {
        remove_documents(draft, model, id, &doc, now_ms);
        return Ok(Destroyed::Removed);
    }
    draft.put(&model.unit_life(id), &Life::Dying);
    Ok(Destroyed::Dying)
}

/// The maximum number of relations that are read for one subordinate link: a subordinate and its principal have
/// one or two between them.
const LINK_RELATIONS_MAX: usize = 4;

/// Sets a unit Dying whose agent has run `stop` or `remove`, in a store that was restored from a backup made
/// before its removal was requested.
///
/// Its subordinates become Dying with it (sim 6002145, 6005423: they waited for each other without end). If the
/// unit is a subordinate, its principal enters the relation again, which creates another subordinate (sim
/// 67001406).
pub(crate) fn resume_teardown(draft: &mut Draft, model: Model, id: Uuid) {
    if draft.get(&model.unit_life(id)) != Some(Life::Alive) {
        return;
    }
    draft.put(&model.unit_life(id), &Life::Dying);
    let Some((principal, subordinate_link)) =
        draft.get(&model.unit(id)).and_then(|doc| doc.principal.zip(doc.subordinate_link))
    else {
        return;
    };
    let related = draft.ids(&model.relations_of_link(&subordinate_link), LINK_RELATIONS_MAX);
    let entered = related.into_iter().find(|id| draft.get(&model.scope_of(principal, *id)).is_some());
    if let Some(relation) = entered {
        pending_reentry::add(draft, model, principal, relation);
    }
}

/// Whether no agent has ever attached for the unit. Such a unit is in no scope and has no subordinates; both
/// indexes are read nevertheless, so that a concurrent entry conflicts with the removal of the unit.
fn has_never_attached(draft: &mut Draft, model: Model, id: Uuid) -> bool {
    attachment(draft, model, id) == Attachment::Never
        && draft.get(&model.replica(id)).is_none()
        && draft.any_key(&model.scopes_of(id), &[]).is_none()
        && draft.any_key(&model.subordinates(id), &[]).is_none()
}

/// Sets a unit Dead when its agent reports that it has finished (spec E.3 "ensure dead", E.8#9; I20).
///
/// The unit must be Dying, without subordinates, and in no scope but those of peer relations, which it leaves
/// here. Leadership is released. Repeating the request changes nothing.
///
/// # Errors
/// If the unit is Alive, has subordinates, is in another scope, has attached storage that its agent must detach, or
/// neither it nor its tombstone exists.
pub fn set_dead(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(doc) = draft.get(&model.unit(id)) else {
        return ok_if_removed(draft, model, id);
    };
    match (draft.get(&model.unit_life(id)), effective_life::unit_life_of(draft, model, id, &doc)) {
        (Some(Life::Dead), _) => return Ok(()),
        (_, Life::Alive) => {
            return Err(UnitRefusal::Alive { unit: doc.name }.into());
        }
        (_, Life::Dying | Life::Dead) => {}
    }
    let refuse = |draft: &mut Draft, reason: UnitRefusal| {
        let blockers = blockers::blockers(draft, model, EntityId::Unit(id));
        Err(Refusal::new(reason).blockers(model, blockers))
    };
    if draft.any_key(&model.subordinates(id), &[]).is_some() {
        return refuse(draft, UnitRefusal::HasSubordinates { unit: doc.name });
    }
    let scopes = draft.ids(&model.scopes_of(id), relation::PEERS_MAX + 1);
    for scope in &scopes {
        let held = draft
            .get(&model.relation(*scope))
            .ok_or_else(|| Refusal::not_found(EntityKind::Relation, scope))?;
        if !held.is_peer() {
            return refuse(draft, UnitRefusal::InScope { unit: doc.name, ends: held.end_names() });
        }
    }
    // an agent that is fenced can detach nothing any more
    let is_by_force = matches!(attachment(draft, model, id), Attachment::Fenced { .. });
    if let Some(attached) = storage::first_attached(draft, model, id).filter(|_| !is_by_force) {
        return Err(StorageRefusal::UnitHasStorage { unit: doc.name, id: attached }.into());
    }
    for scope in scopes {
        relation::leave_scope(draft, model, id, scope);
    }
    leadership::release(draft, model, id);
    storage::release_all(draft, model, StorageOwner { id, doc: &doc });
    draft.put(&model.unit_life(id), &Life::Dead);
    Ok(())
}

/// Removes a Dead unit; the machine agent calls this once it has recalled the unit (spec E.3 last row, F.2).
///
/// A Dying unit whose agent never attached is removed, too: no agent is started only to finish. In the same
/// transaction the name becomes free, the machine becomes Dying if this was its last unit, and a Dying
/// application is removed if nothing else refers to it. Repeating the request changes nothing (I26).
///
/// # Errors
/// If the unit is not Dead and an agent has attached for it ([`UnitRefusal::AgentNotFinished`] if that agent has to
/// finish it, so that the machine agent starts it), or if neither it nor its tombstone exists.
pub fn remove(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<(), Refusal> {
    let Some(doc) = draft.get(&model.unit(id)) else {
        return ok_if_removed(draft, model, id);
    };
    let dead = draft.get(&model.unit_life(id)) == Some(Life::Dead);
    let dying = effective_life::unit_life_of(draft, model, id, &doc) != Life::Alive;
    let never_started = dying && has_never_attached(draft, model, id);
    if !dead && !never_started {
        let blockers = blockers::blockers(draft, model, EntityId::Unit(id));
        let unit = doc.name;
        let reason = match attachment(draft, model, id) {
            Attachment::Never | Attachment::Attached if dying => UnitRefusal::AgentNotFinished { unit },
            Attachment::Never | Attachment::Attached | Attachment::Fenced { .. } => {
                UnitRefusal::NotDead { unit }
            }
        };
        return Err(Refusal::new(reason).blockers(model, blockers));
    }
    remove_documents(draft, model, id, &doc, now_ms);
    Ok(())
}

fn remove_documents(draft: &mut Draft, model: Model, id: Uuid, doc: &UnitDoc, now_ms: i64) {
    action::fail_all(draft, model, id, now_ms);
    leadership::release(draft, model, id);
    token::revoke(draft, id);
    secret::remove_owner(draft, model, id);
    storage::release_all(draft, model, StorageOwner { id, doc });
    draft.remove(&model.unit(id));
    draft.remove(&model.unit_life(id));
    draft.remove(&model.unit_name(&doc.name));
    draft.remove(&model.unit_of(doc.application, id));
    draft.remove(&model.machine_unit(doc.machine, id));
    draft.remove(&model.unit_status(id));
    draft.remove(&model.agent_status(id));
    draft.remove(&model.status_log(id));
    draft.remove(&model.workload_version(id));
    draft.remove(&model.session(id));
    draft.remove(&model.replica(id));
    draft.remove(&model.resolved(id));
    draft.remove(&model.ports(id));
    draft.remove(&model.machine_port(doc.machine, id));
    if let Some(principal) = doc.principal {
        draft.remove(&model.subordinate(principal, doc.application, id));
    }
    let tombstone = TombstoneDoc::new(TombstoneKind::Unit, doc.name.to_string());
    draft.put(&model.tombstone(id), &TombstoneDoc { machine: Some(doc.machine), ..tombstone });
    draft.put(&model.recall(doc.machine, id), &());
    machine::destroy_if_empty(draft, model, doc.machine);
    application::remove_if_unreferenced(draft, model, doc.application);
}

/// The user's `resolved`: marks the failure that the unit is in, and only that one (spec A.8, design 2).
/// `retry`: the hook is run again; otherwise it is skipped.
pub fn resolved(draft: &mut Draft, model: Model, id: Uuid, retry: bool) -> Result<(), Refusal> {
    let doc = draft.get(&model.unit(id)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, id))?;
    let replica = draft.get(&model.replica(id));
    let Some(episode) = replica.as_ref().and_then(|replica| replica.local.episode()) else {
        return Err(UnitRefusal::NoError { unit: doc.name }.into());
    };
    let mark = ResolvedDoc { episode: episode.id, retry };
    if draft.get(&model.resolved(id)).as_ref() != Some(&mark) {
        draft.put(&model.resolved(id), &mark);
    }
    Ok(())
}

/// Succeeds for a unit that was removed before.
fn ok_if_removed(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    match draft.get(&model.tombstone(id)) {
        Some(_) => Ok(()),
        None => Err(Refusal::not_found(EntityKind::Unit, id)),
    }
}
