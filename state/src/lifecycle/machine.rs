//! Machines: added with the unit that needs one, Dying when the last unit is gone, Dead by their own agent (spec
//! E.5, seed 001).

use crate::documents::blockers::{self, EntityId, by_hand};
use crate::documents::draft::{Draft, Reader, read, read_all};
use crate::documents::effective_life::{self, Documents};
use crate::documents::keys::{GLOBAL, MachineDoc, Model, TombstoneDoc, last_id};
use crate::documents::refusal::{Code, Refusal};
use crate::documents::{sequence, token};
use crate::operations::force;
use crate::terms::cause::Entity;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};

/// Units of one machine, subordinates too. One page of a transaction holds them, beside the 60 reads of the largest
/// hook's commit; and 4 reads of each (place, unit, its life, its application's) fit beside the machine's own.
pub const UNITS_MAX: usize = 24;

/// The addresses of 127.0.0.0/8 that [`address`] gives out. All models have them in common; after the last comes the
/// first again, whose machine is most likely long gone.
const ADDRESSES: u64 = 250 * 256;

/// A new machine; the answer is its name. The model must be Alive (spec E.1).
pub fn add(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<String, Refusal> {
    crate::lifecycle::model::require_alive(draft, model)?;
    let number = sequence::take(draft, model, "machine");
    let place = sequence::take(draft, GLOBAL, "address") % ADDRESSES;
    let name = number.to_string();
    let address = address(place);
    let doc = MachineDoc { name: name.clone(), address, created_ms: now_ms, ..MachineDoc::default() };
    draft.put(&model.machine(id), &doc);
    draft.put(&model.machine_life(id), &Life::Alive);
    draft.put(&model.machine_name(&name), &id);
    Ok(name)
}

/// A new machine that a person brings: it has no address until it comes.
pub fn add_manual(draft: &mut Draft, model: Model, id: Uuid, now_ms: i64) -> Result<String, Refusal> {
    let name = add(draft, model, id, now_ms)?;
    let doc = draft.get(&model.machine(id)).expect("it was just added");
    draft.put(&model.machine(id), &MachineDoc { address: String::new(), manual: true, ..doc });
    Ok(name)
}

/// Loopback address of the n-th machine of the local provider: 127.0.n.1; beyond 254, where that form ends, a form
/// whose second part is never 0, so that no two machines meet.
fn address(number: u64) -> String {
    match number {
        0..=254 => format!("127.0.{number}.1"),
        _ => format!("127.{}.{}.1", number / 250, number % 250),
    }
}

/// The machine people call `name`.
pub fn find(documents: &mut impl Documents, model: Model, name: &str) -> Result<Uuid, Refusal> {
    documents.document(&model.machine_name(name)).ok_or_else(|| Refusal::not_found("machine", name))
}

/// Refuses unless another unit may be assigned to the machine (I21; scenario 172).
pub fn require_capacity(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        let message = format!("cannot assign a unit to machine {}: the machine is not alive", machine.name);
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        return Err(Refusal::new(Code::NotAlive, message).blockers(model, blockers));
    }
    if is_full(draft, model, id) {
        let message = format!("machine {} has {UNITS_MAX} units, the most one machine takes", machine.name);
        return Err(Refusal::new(Code::Invalid, message));
    }
    Ok(())
}

/// The machine takes no more units.
pub(crate) fn is_full(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    documents.keys(&model.machine_units(id), UNITS_MAX).len() >= UNITS_MAX
}

/// The user's remove-machine: Dying, unless a unit on it is Alive (spec E.5 rows 1 and 2; scenarios 169, 170). A
/// second time changes nothing.
pub fn destroy(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return gone(draft, model, id);
    };
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        return Ok(());
    }
    let mut alive = Vec::new();
    for unit in draft.ids(&model.machine_units(id), UNITS_MAX) {
        // one that goes by itself costs two reads of a transaction's hundred
        if draft.get(&model.unit_life(unit)) != Some(Life::Alive) {
            continue;
        }
        let doc = draft.get(&model.unit(unit)).expect("an index names what exists (I22)");
        // a subordinate is no more alive than its principal, which is here too
        if doc.principal.is_none() && effective_life::unit_life_of(draft, model, unit, &doc) == Life::Alive {
            alive.push(doc.name);
        }
    }
    if !alive.is_empty() {
        let units = alive.iter().map(UnitName::to_string).collect::<Vec<_>>().join(", ");
        let are = if alive.len() == 1 { "unit" } else { "units" };
        let verb = if alive.len() == 1 { "is" } else { "are" };
        let message = format!("cannot remove machine {}: {are} {units} {verb} assigned to it", machine.name);
        let blockers = alive.into_iter().map(|unit| by_hand(Entity::Unit(unit)));
        return Err(Refusal::new(Code::Busy, message).blockers(model, blockers.collect()));
    }
    draft.put(&model.machine_life(id), &Life::Dying);
    Ok(())
}

/// With the user's remove-machine, before it: when the machine goes, its instance stays and is the user's. One that is
/// Dead is being taken away already. A machine that a person brought stays in any case.
pub fn keep_instance(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    if machine.kept || machine.manual {
        return Ok(());
    }
    let refuse = |what: &str| {
        let message = format!("cannot keep the instance of machine {}: {what}", machine.name);
        Err(Refusal::new(Code::Invalid, message))
    };
    if draft.get(&model.machine_life(id)) == Some(Life::Dead) {
        return refuse("it is being taken away");
    }
    // what was recorded goes with the machine's document only, which was read: a machine full of units leaves no read
    if draft.get_untracked(&model.machine_instance(id)).is_none_or(|instance| instance.id.is_none()) {
        return refuse("it has none yet");
    }
    draft.put(&model.machine(id), &MachineDoc { kept: true, ..machine });
    Ok(())
}

/// The machine agent says that it has finished: no unit is assigned any more (I20).
pub fn set_dead(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return gone(draft, model, id);
    };
    match draft.get(&model.machine_life(id)) {
        Some(Life::Dead) => return Ok(()),
        Some(Life::Dying) => {}
        Some(Life::Alive) | None => {
            return Err(Refusal::new(Code::Invalid, format!("machine {} is alive", machine.name)));
        }
    }
    if draft.first(&model.machine_units(id), &[]).is_some() {
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        let message = format!("machine {} cannot be dead: units are assigned to it", machine.name);
        return Err(Refusal::new(Code::Busy, message).blockers(model, blockers));
    }
    draft.put(&model.machine_life(id), &Life::Dead);
    Ok(())
}

/// The machine's units that end without an agent, since no instance is there for one: Dying, and never attached. Each
/// is [`unit::remove`](crate::lifecycle::unit::remove)d in a transaction of its own; then the machine can be Dead.
pub fn units_without_instance(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Uuid> {
    if documents.document(&model.machine_life(id)) != Some(Life::Dying) {
        return Vec::new();
    }
    let mut units = documents.ids(&model.machine_units(id), UNITS_MAX);
    units.retain(|unit| documents.document(&model.session(*unit)).is_none());
    units
}

/// A unit that is assigned to this machine has lived: it is removed only once its agent has brought it to its end, or
/// force has begun to act in that one's place.
pub fn has_attached_unit(reader: &dyn Reader, model: Model, id: Uuid) -> bool {
    let units = read_all::<()>(reader, &model.machine_units(id)).into_iter();
    let mut units = units.filter_map(|(key, ())| last_id(&key));
    units.any(|unit| read(reader, &model.session(unit)).is_some_and(|session| !force::is_fenced(&session)))
}

/// Dead -> removed: what the provisioner does once the machine is released; its name is not used again (spec E.5).
pub fn remove(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else {
        return gone(draft, model, id);
    };
    if draft.get(&model.machine_life(id)) != Some(Life::Dead) {
        let message = format!("cannot remove machine {}: it is not dead", machine.name);
        let blockers = blockers::blockers(draft, model, EntityId::Machine(id));
        return Err(Refusal::new(Code::Busy, message).blockers(model, blockers));
    }
    // its agent may be in what was handed over without having heard of it
    match machine.kept && !machine.left {
        true => token::retire(draft, id),
        false => token::revoke(draft, id),
    }
    forget(draft, model, id, machine.name);
    Ok(())
}

/// The same for a Dead machine whose agent did not come to hear of it. When it comes, its token is good for one thing:
/// to be told that the machine was removed. An invitation that nobody used is good for nothing.
pub(crate) fn remove_without_agent(draft: &mut Draft, model: Model, id: Uuid, name: String) {
    match draft.get(&model.machine_instance(id)) {
        Some(_) => token::retire(draft, id),
        None => token::revoke(draft, id),
    }
    forget(draft, model, id, name);
}

/// Nobody waits for the agent of a Dead machine whose instance is kept any more: what is left is its provider's, to hand
/// over and to remove. An agent that is `absent` learns of it by its token, as in [`remove_without_agent`].
pub(crate) fn leave(draft: &mut Draft, model: Model, id: Uuid, machine: MachineDoc, absent: bool) {
    if absent {
        token::retire(draft, id);
    }
    draft.put(&model.machine(id), &MachineDoc { left: true, ..machine });
}

fn forget(draft: &mut Draft, model: Model, id: Uuid, name: String) {
    draft.remove(&model.machine(id));
    draft.remove(&model.machine_life(id));
    draft.remove(&model.machine_instance(id));
    draft.remove(&model.machine_provisioning_error(id));
    draft.remove(&model.machine_name(&name));
    draft.put(&model.tombstone(id), &TombstoneDoc { kind: "machine".to_owned(), name });
}

/// A machine of a model that is being destroyed: its units are Dying already, and it is, too.
pub(crate) fn retire(draft: &mut Draft, model: Model, id: Uuid) {
    if draft.get(&model.machine_life(id)) == Some(Life::Alive) {
        draft.put(&model.machine_life(id), &Life::Dying);
    }
}

/// The machine whose last unit is being removed becomes Dying in that transaction (spec E.3 last row; scenario 171).
pub(crate) fn release(draft: &mut Draft, model: Model, id: Uuid) {
    let alive = draft.get(&model.machine_life(id)) == Some(Life::Alive);
    if alive && draft.first(&model.machine_units(id), &[]).is_none() {
        draft.put(&model.machine_life(id), &Life::Dying);
    }
}

/// Ends well for what was removed before (I26).
fn gone(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    match draft.get(&model.tombstone(id)) {
        Some(_) => Ok(()),
        None => Err(Refusal::not_found("machine", id)),
    }
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::machine::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_machines_have_one_address() {
        let all: BTreeSet<String> = (0..ADDRESSES).map(address).collect();
        assert_eq!(all.len() as u64, ADDRESSES);
        assert_eq!(address(0), "127.0.0.1");
        assert_eq!(address(7), "127.0.7.1");
        assert!(all.iter().all(|a| a.parse::<std::net::Ipv4Addr>().is_ok()));
    }
}
