//! Collects what `status` shows of one unit: its statuses (`state::status::unit`), its machine, its open ports and whether it
//! leads.
//!
//! Reads documents and presence, decides nothing and writes nothing. Called by the status cache; `unit_info` uses the ports.

use api::{Shared, UnitStatus};
use state::documents::draft::{Reader, Revision, StoredDocument, parse, read};
use state::documents::effective_life;
use state::documents::prelude::Model;
use state::lifecycle::leadership;
use state::status::presence::PresenceReader;
use state::status::unit::{UnitStatuses, statuses};
use state::terms::names::{UnitName, Uuid};
use state::terms::port_range::PortRange;
use std::collections::BTreeSet;

/// The name and the status of a unit, and its workload version.
#[derive(Clone)]
pub(super) struct UnitPart {
    pub(super) name: UnitName,
    pub(super) status: Shared<UnitStatus>,
    /// The workload version that the unit has set last, with the revision of that commit.
    pub(super) workload_version: Option<(Revision, String)>,
}

/// Returns the status of a unit; none if the unit does not exist, or is damaged on disk.
pub(super) fn unit_part(
    reader: &dyn Reader,
    model: Model,
    presence: &dyn PresenceReader,
    id: Uuid,
) -> Option<UnitPart> {
    let doc = read(reader, &model.unit(id))?;
    let stored = reader.get(model.workload_version(id).text());
    let version = |stored: StoredDocument| (stored.revision, parse(reader, &stored).unwrap_or_default());
    let machine = read(reader, &model.machine(doc.machine));
    let UnitStatuses { workload, agent, activity } = statuses(reader, model, presence, id, &doc);
    let status = UnitStatus {
        uuid: id,
        life: effective_life::unit_life_of(&mut { reader }, model, id, &doc),
        machine: machine.as_ref().map_or(String::new(), |machine| machine.name.clone()),
        principal: doc.principal.and_then(|id| read(reader, &model.unit(id))).map(|doc| doc.name),
        leader: leadership::is_leader(&mut { reader }, model, id, &doc, None),
        workload,
        agent,
        activity,
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
    };
    Some(UnitPart { name: doc.name, status: status.into(), workload_version: stored.map(version) })
}

pub(super) fn ports(reader: &dyn Reader, model: Model, unit: Uuid) -> Vec<PortRange> {
    let open = read(reader, &model.ports(unit)).unwrap_or_default();
    open.into_values().flatten().collect::<BTreeSet<PortRange>>().into_iter().collect()
}
