//! A unit as it is shown: its statuses (`state::status::unit`), its machine and its open ports.

use api::{Shared, UnitStatus};
use state::documents::draft::{Reader, Revision, StoredDocument, parse, read};
use state::documents::effective_life;
use state::documents::prelude::{Model, UnitDoc};
use state::status::presence::PresenceReader;
use state::status::unit::{UnitStatuses, statuses};
use state::terms::names::{UnitName, Uuid};
use state::terms::port_range::{PortRange, Protocol};

/// A unit as it is shown.
#[derive(Clone)]
pub(super) struct UnitPart {
    pub(super) name: UnitName,
    pub(super) status: Shared<UnitStatus>,
    /// What the unit has set last as the version of the workload, and in which revision.
    pub(super) workload_version: Option<(Revision, String)>,
}

/// Returns a unit as it is shown; none if it does not exist, or is damaged on disk.
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
        leader: is_leader(reader, model, id, &doc),
        workload,
        agent,
        activity,
        address: machine.map_or(String::new(), |machine| machine.address),
        ports: ports(reader, model, id),
    };
    Some(UnitPart { name: doc.name, status: status.into(), workload_version: stored.map(version) })
}

pub(super) fn is_leader(reader: &dyn Reader, model: Model, id: Uuid, doc: &UnitDoc) -> bool {
    read(reader, &model.leader(doc.application)).is_some_and(|grant| grant.holder == id)
}

pub(super) fn ports(reader: &dyn Reader, model: Model, unit: Uuid) -> Vec<PortRange> {
    let open = read(reader, &model.ports(unit)).unwrap_or_default();
    let mut ports: Vec<PortRange> = open.into_values().flatten().collect();
    ports.sort_by_key(|range| (range.protocol != Protocol::Icmp, range.from, range.to_string()));
    ports.dedup();
    ports
}
