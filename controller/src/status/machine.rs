//! The status of a machine: its statuses (`state::status::machine`), its address and its instance.

use api::{MachineStatus, Shared};
use state::documents::draft::{Reader, read};
use state::documents::effective_life;
use state::documents::prelude::{InstanceDoc, MachineDoc, Model};
use state::status::machine::{MachineStatuses, statuses};
use state::status::presence::PresenceReader;
use state::terms::names::Uuid;

/// Returns the name and the status of a machine.
pub(super) fn machine_status(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> Option<(String, Shared<MachineStatus>)> {
    let doc: MachineDoc = read(reader, &model.machine(id))?;
    let life = effective_life::machine_life(&mut { reader }, model, id);
    let made: Option<InstanceDoc> = read(reader, &model.machine_instance(id));
    let MachineStatuses { agent, instance } = statuses(reader, model, presence, id, &doc, life);
    let status = MachineStatus {
        uuid: id,
        life,
        agent,
        instance,
        address: doc.address,
        constraints: doc.constraints,
        base: made.as_ref().and_then(|made| made.base.clone()).unwrap_or_default(),
        hardware: made.as_ref().and_then(|made| made.hardware.clone()),
        instance_id: made.and_then(|made| made.id),
    };
    Some((doc.name, status.into()))
}
