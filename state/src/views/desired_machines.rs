//! The machines that a provisioner must create, keep or remove.
//!
//! Reads documents only; what is done with an instance is decided by `machine::provision`. Called by the handler of the
//! provisioner's request.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Kind, MachineDoc, Model, last_id};
use crate::lifecycle::machine;
use crate::machine::provision::{DesiredMachine, InstanceOwner};
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// All machines of a model, in order of uuids.
pub fn desired_machines(reader: &dyn Reader, model: Model) -> Vec<DesiredMachine> {
    let all = read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine));
    all.into_iter().filter_map(|(key, doc)| desired_machine(reader, model, last_id(&key)?, doc)).collect()
}

/// None if the life of the machine cannot be read. If it is damaged, the store has noted that and discards the list.
fn desired_machine(reader: &dyn Reader, model: Model, uuid: Uuid, doc: MachineDoc) -> Option<DesiredMachine> {
    let life = read(reader, &model.machine_life(uuid))?;
    let instance = read(reader, &model.machine_instance(uuid));
    Some(DesiredMachine {
        uuid,
        name: doc.name,
        address: doc.address,
        life,
        owner: if doc.manual { InstanceOwner::Manual } else { InstanceOwner::Provisioner },
        nonce: instance.as_ref().map(|instance| instance.nonce),
        instance_id: instance.and_then(|instance| instance.id),
        requested_base: doc.requested_base,
        keep_instance: doc.keep_instance,
        agent_uninstalled: doc.agent_uninstalled,
        has_units: !reader.scan(&model.machine_units(uuid), "", 1).is_empty(),
        needs_unit_agent: life == Life::Dying && machine::needs_unit_agent(reader, model, uuid),
        retry_at_ms: read(reader, &model.machine_provisioning_error(uuid)).map(|error| error.retry_ms),
    })
}
