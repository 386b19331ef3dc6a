//! The status of an application: its charm, its relations and its units, and the worst status of these.

use super::status_info::{status_info, stored_status_info};
use super::unit::unit_status;
use crate::presence::PresenceSnapshot;
use api::{ApplicationStatus, RelatedApplication, StatusInfo, UnitStatus};
use state::documents::draft::{Reader, parse, read, read_all};
use state::documents::prelude::{ApplicationDoc, Model, RelationDoc, last_id};
use state::lifecycle::application;
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::status::WorkloadStatus;
use state::terms::status_message::StatusMessage;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn application_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    id: Uuid,
    doc: &ApplicationDoc,
    all: &[(Uuid, RelationDoc)],
) -> Option<ApplicationStatus> {
    let (charm, declared) = application::charm_of(&mut { reader }, model, id)?;
    let mut units = BTreeMap::new();
    // that of the first unit whose machine exists
    let mut base = None;
    let mut version = (0, String::new());
    for (key, ()) in read_all(reader, &model.units_of(id)) {
        let unit = last_id(&key).expect("an index ends with an id");
        let Some(doc) = read(reader, &model.unit(unit)) else { continue }; // damaged on disk
        if let Some(stored) =
            reader.get(model.workload_version(unit).text()).filter(|stored| stored.revision > version.0)
        {
            version = (stored.revision, parse(reader, &stored).unwrap_or_default());
        }
        let made = read(reader, &model.machine_instance(doc.machine));
        base = base.or_else(|| made.and_then(|made| made.base));
        units.insert(doc.name.clone(), unit_status(reader, model, presence, unit, &doc));
    }
    let mut relations = BTreeMap::<String, Vec<RelatedApplication>>::new();
    let mut subordinate_to = BTreeSet::new();
    for (_, relation) in all {
        let Some(own) = relation.end_of(id) else { continue };
        let other = relation.other_end(id);
        relations.entry(own.endpoint.clone()).or_default().push(RelatedApplication {
            application: other.application_name.clone(),
            interface: own.interface.clone(),
            scope: relation.scope,
        });
        if relation.subordinate_link.is_some_and(|subordinate_link| subordinate_link.subordinate == id) {
            subordinate_to.insert(other.application_name.clone());
        }
    }
    let set = read(reader, &model.application_status(id));
    Some(ApplicationStatus {
        uuid: id,
        life: read(reader, &model.application_life(id)).unwrap_or(Life::Dying),
        charm_name: charm.name,
        charm_url: charm.url,
        charm_revision: charm.revision,
        charm_version: declared.version.clone(),
        base: base
            .or_else(|| doc.requested_base.clone())
            .or_else(|| declared.base().cloned())
            .unwrap_or_default(),
        exposed: false,
        subordinate: doc.subordinate,
        subordinate_to: subordinate_to.into_iter().collect(),
        workload_version: version.1,
        status: set.map_or_else(|| worst(units.values(), doc.created_ms), stored_status_info),
        relations,
        units,
    })
}

/// Returns the worst workload status of the units, with the message of its unit; of equal statuses the first.
fn worst<'a>(units: impl Iterator<Item = &'a UnitStatus>, created_ms: i64) -> StatusInfo<WorkloadStatus> {
    let worst = units.map(|unit| &unit.workload).min_by_key(|status| status.current);
    worst
        .cloned()
        .unwrap_or_else(|| status_info(WorkloadStatus::Unknown, StatusMessage::Empty, Some(created_ms)))
}
