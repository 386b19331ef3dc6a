//! Machines: added for a unit or by a user, Dying when the last unit is removed, set Dead by their own agent,
//! removed by the provisioner (spec E.5).
//!
//! A machine with an Alive unit is never destroyed without force, and a machine with any unit is never Dead
//! (I20). Called by the handlers of users, the machine agent's handlers, the provisioner's handlers, by the lifecycle
//! of units and storage, by forced removal, and by the destruction of a model.

use crate::charm::Base;
use crate::documents::attachment::{Attachment, attachment};
use crate::documents::blockers::{self, BLOCKERS_MAX, EntityId, operator_removal};
use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Reader, read_all};
use crate::documents::effective_life;
use crate::documents::prelude::{
    GLOBAL, MachineDoc, MachineStorageDoc, Model, TombstoneDoc, TombstoneKind, last_id,
};
use crate::documents::refusal::Refusal;
use crate::documents::{sequence, token};
use crate::terms::cause::Entity;
use crate::terms::constraints::Constraints;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::machine::MachineRefusal;
use crate::terms::refusal::storage::StorageRefusal;
use crate::terms::storage::StorageId;

/// The maximum number of units on one machine, subordinates included. One page of a transaction, which has at most 40
/// documents, holds them; and 4 reads of each unit (assignment, unit, its life, its application's life) are 96 of a
/// transaction's 2,000.
pub const UNITS_MAX: usize = 24;

/// The number of addresses of 127.0.0.0/8 that [`address`] returns. All models share them. After the last
/// address the first is used again; its machine was most likely removed long ago.
const ADDRESSES: u64 = 250 * 256;

/// Creates a machine and returns its name. The model must be Alive (spec E.1).
///
/// # Errors
/// If the model is being removed or does not exist.
pub fn add(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<String, Refusal> {
    crate::lifecycle::model::require_alive(draft, model)?;
    let number = sequence::take(draft, model, "machine");
    let index = sequence::take(draft, GLOBAL, "address") % ADDRESSES;
    let name = number.to_string();
    let address = address(index);
    let doc = MachineDoc { name: name.clone(), address, created_ms: now_ms, ..MachineDoc::default() };
    draft.put(&model.machine(id), &doc);
    draft.put(&model.machine_life(id), &Life::Alive);
    draft.put(&model.machine_name(&name), &id);
    Ok(name)
}

/// What is requested of a machine that is added.
#[derive(Clone, Debug, Default)]
pub struct MachineRequest {
    /// Whether it is manually provisioned.
    pub manual: bool,
    /// Its operating system; none for any.
    pub base: Option<Base>,
    /// Its constraints. Those of the model apply to the other keys.
    pub constraints: Constraints,
}

impl MachineRequest {
    /// A manually provisioned machine, without anything else.
    pub fn manual() -> MachineRequest {
        MachineRequest { manual: true, ..MachineRequest::default() }
    }
}

/// Creates a machine as requested, for the user's `add-machine` or for a unit, and returns its name. The address of a
/// machine that is provisioned manually is empty until it enrols.
///
/// # Errors
/// If the model is being removed or does not exist.
pub fn add_requested(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    request: MachineRequest,
    now_ms: i64,
) -> Result<String, Refusal> {
    let name = add(draft, model, id, now_ms)?;
    let added = draft.get(&model.machine(id)).expect("it was just added");
    let of_model = draft.get(&model.constraints(model.0)).unwrap_or_default();
    let MachineRequest { manual, base, constraints } = request;
    let doc = MachineDoc {
        address: if manual { String::new() } else { added.address.clone() },
        manual,
        requested_base: base,
        constraints: constraints.or(of_model),
        ..added.clone()
    };
    if doc != added {
        draft.put(&model.machine(id), &doc);
    }
    Ok(name)
}

/// The loopback address of the n-th machine of the local provider: 127.0.n.1 up to 254; above that a form whose
/// second part is never 0, so that no two machines have the same address.
fn address(number: u64) -> String {
    match number {
        0..=254 => format!("127.0.{number}.1"),
        _ => format!("127.{}.{}.1", number / 250, number % 250),
    }
}

/// The machine named `name`.
///
/// # Errors
/// If there is none.
pub fn find(documents: &mut impl Documents, model: Model, name: &str) -> Result<Uuid, Refusal> {
    documents.document(&model.machine_name(name)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, name))
}

/// Refuses if no further unit may be assigned to the machine: it is not Alive or it is full (I21; scenario
/// 172).
pub fn require_capacity(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        return Err(
            Refusal::new(MachineRefusal::NotAlive { machine: machine.name }).blockers(model, blockers)
        );
    }
    if is_full(draft, model, id) {
        return Err(MachineRefusal::Full { machine: machine.name, max: UNITS_MAX }.into());
    }
    Ok(())
}

/// Whether the machine has [`UNITS_MAX`] units.
pub(crate) fn is_full(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    documents.keys(&model.machine_units(id), UNITS_MAX).len() >= UNITS_MAX
}

/// The user's `remove-machine`: sets the machine Dying, unless a unit on it is Alive (spec E.5 rows 1 and 2;
/// scenarios 169, 170). Repeating the request changes nothing.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return ok_if_removed(draft, model, id);
    };
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        return Ok(());
    }
    let mut alive = Vec::new();
    for unit in draft.ids(&model.machine_units(id), UNITS_MAX) {
        // a unit whose own life is Dying or Dead costs only two reads
        if draft.get(&model.unit_life(unit)) != Some(Life::Alive) {
            continue;
        }
        let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
        // a subordinate is at most as alive as its principal, which is on this machine, too
        if doc.principal.is_none() && effective_life::unit_life_of(draft, model, unit, &doc) == Life::Alive {
            alive.push(doc.name);
        }
    }
    if !alive.is_empty() {
        let named = alive.iter().take(BLOCKERS_MAX + 1).cloned();
        let blockers = named.map(|unit| operator_removal(Entity::Unit(unit))).collect();
        let reason = MachineRefusal::UnitsAlive { machine: machine.name, units: alive };
        return Err(Refusal::new(reason).blockers(model, blockers));
    }
    let on_machine = draft.get(&model.machine_storage(id)).unwrap_or_default();
    let storage = alive_storage(on_machine);
    if !storage.is_empty() {
        return Err(StorageRefusal::OnMachine { machine: machine.name, storage }.into());
    }
    draft.put(&model.machine_life(id), &Life::Dying);
    Ok(())
}

/// The instances whose removal was not requested.
fn alive_storage(on_machine: MachineStorageDoc) -> Vec<StorageId> {
    on_machine.into_iter().filter(|(_, life)| *life == Life::Alive).map(|(id, _)| id).collect()
}

/// The user's `remove-machine --keep-instance`, called before [`destroy`]: the provider must not terminate the
/// machine's instance. Refused for a Dead machine, whose instance is being terminated already. Changes nothing
/// for a manually provisioned machine, which is never terminated.
pub(crate) fn keep_instance(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    if machine.keep_instance || machine.manual {
        return Ok(());
    }
    if draft.get(&model.machine_life(id)) == Some(Life::Dead) {
        return Err(MachineRefusal::InstanceBeingReleased { machine: machine.name }.into());
    }
    if draft.get(&model.machine_instance(id)).is_none_or(|instance| instance.id.is_none()) {
        return Err(MachineRefusal::NoInstance { machine: machine.name }.into());
    }
    draft.put(&model.machine(id), &MachineDoc { keep_instance: true, ..machine });
    Ok(())
}

/// Sets the machine Dead when its agent reports that it has finished. Refused while units are assigned to it
/// (I20). Repeating the request changes nothing.
pub fn set_dead(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return ok_if_removed(draft, model, id);
    };
    match draft.get(&model.machine_life(id)) {
        Some(Life::Dead) => return Ok(()),
        Some(Life::Dying) => {}
        Some(Life::Alive) | None => {
            return Err(MachineRefusal::Alive { machine: machine.name }.into());
        }
    }
    if draft.any_key(&model.machine_units(id), &[]).is_some() {
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        return Err(
            Refusal::new(MachineRefusal::UnitsAssigned { machine: machine.name }).blockers(model, blockers)
        );
    }
    draft.put(&model.machine_life(id), &Life::Dead);
    Ok(())
}

/// Whether a unit of this machine can be removed only after its agent has finished: the agent has attached, and no
/// forced removal acts for it.
pub fn needs_unit_agent(reader: &dyn Reader, model: Model, id: Uuid) -> bool {
    let units = read_all::<()>(reader, &model.machine_units(id)).into_iter();
    let mut units = units.filter_map(|(key, ())| last_id(&key));
    units.any(|unit| attachment(&mut { reader }, model, unit) == Attachment::Attached)
}

/// Removes a Dead machine; the provisioner calls this once the instance is released (spec E.5). The name is not
/// used again.
///
/// # Errors
/// If the machine is not Dead, or neither it nor its tombstone exists.
pub fn remove(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return ok_if_removed(draft, model, id);
    };
    if draft.get(&model.machine_life(id)) != Some(Life::Dead) {
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        return Err(Refusal::new(MachineRefusal::NotDead { machine: machine.name }).blockers(model, blockers));
    }
    // the agent may still run on the kept instance, and may not have received the removal
    match machine.keep_instance && !machine.agent_uninstalled {
        true => token::retire(draft, model, id),
        false => token::revoke(draft, id),
    }
    remove_documents(draft, model, id, machine.name);
    Ok(())
}

/// Removes a Dead machine whose agent has not confirmed that it uninstalled itself. The token of the agent is
/// retired: if the agent returns, the token only permits it to receive the removal. An enrolment token that was never
/// used is revoked.
pub(crate) fn remove_without_agent(draft: &mut Draft, model: Model, id: Uuid, name: String) {
    match draft.get(&model.machine_instance(id)).is_some() {
        true => token::retire(draft, model, id),
        false => token::revoke(draft, id),
    }
    remove_documents(draft, model, id, name);
}

/// Stops waiting for the agent of a Dead machine whose instance is kept; the provisioner then releases the
/// instance and removes the machine. If the agent is `absent`, its token permits only to receive the removal,
/// as in [`remove_without_agent`].
pub(crate) fn mark_agent_uninstalled(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    machine: MachineDoc,
    absent: bool,
) {
    if absent {
        token::retire(draft, model, id);
    }
    draft.put(&model.machine(id), &MachineDoc { agent_uninstalled: true, ..machine });
}

fn remove_documents(draft: &mut Draft, model: Model, id: Uuid, name: String) {
    draft.remove(&model.machine(id));
    draft.remove(&model.machine_life(id));
    draft.remove(&model.machine_instance(id));
    draft.remove(&model.machine_provisioning_error(id));
    draft.remove(&model.status_log(id));
    draft.remove(&model.machine_name(&name));
    let storage = draft.get(&model.machine_storage(id)).unwrap_or_default();
    for id in storage.keys() {
        draft.remove(&model.storage(id));
    }
    draft.remove(&model.machine_storage(id));
    draft.put(&model.tombstone(id), &TombstoneDoc::new(TombstoneKind::Machine, name));
    // the tombstone of the machine covers its units
    if draft.any_key(&model.recalls(id), &[]).is_some() {
        draft.put(&model.cleanup(id), &vec![model.recalls(id)]);
    }
}

/// Sets a machine Dying whose model is being destroyed. Its units are Dying already.
pub(crate) fn set_dying(draft: &mut Draft, model: Model, id: Uuid) {
    if draft.get(&model.machine_life(id)) == Some(Life::Alive) {
        draft.put(&model.machine_life(id), &Life::Dying);
    }
}

/// Sets the machine Dying if it has no units any more, and no storage that a user may attach again; called in the
/// transaction that removes a unit or storage (spec E.3 last row; scenario 171).
pub(crate) fn destroy_if_empty(draft: &mut Draft, model: Model, id: Uuid) {
    let alive = draft.get(&model.machine_life(id)) == Some(Life::Alive);
    if alive
        && draft.any_key(&model.machine_units(id), &[]).is_none()
        && alive_storage(draft.get(&model.machine_storage(id)).unwrap_or_default()).is_empty()
    {
        draft.put(&model.machine_life(id), &Life::Dying);
    }
}

/// Succeeds for a machine that was removed before (I26).
fn ok_if_removed(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    match draft.get(&model.tombstone(id)) {
        Some(_) => Ok(()),
        None => Err(Refusal::not_found(EntityKind::Machine, id)),
    }
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::machine::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_machines_have_the_same_address() {
        let all: BTreeSet<String> = (0..ADDRESSES).map(address).collect();
        assert_eq!(all.len() as u64, ADDRESSES);
        assert_eq!(address(0), "127.0.0.1");
        assert_eq!(address(7), "127.0.7.1");
        assert!(all.iter().all(|a| a.parse::<std::net::Ipv4Addr>().is_ok()));
    }
}
