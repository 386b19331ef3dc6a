//! The status of an application: its charm, its relations and its units, and the worst status of its units.

use super::unit::UnitPart;
use api::{ApplicationStatus, RelatedApplication, StatusInfo};
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{ApplicationDoc, Model, RelationDoc, last_id};
use state::lifecycle::application;
use state::status::application::worst;
use state::terms::names::Uuid;
use state::terms::status::WorkloadStatus;
use state::terms::status_message::StatusMessage;
use std::collections::{BTreeMap, BTreeSet};

/// An application without its units.
pub(super) struct ApplicationPart {
    name: String,
    /// If the leader has set no status, this is the status of an application without units.
    status: ApplicationStatus,
    /// Whether the leader has set the status.
    is_status_set: bool,
}

/// Returns an application without its units. None if its charm is damaged on disk.
pub(super) fn application_part(reader: &dyn Reader, model: Model, id: Uuid) -> Option<ApplicationPart> {
    let doc: ApplicationDoc = read(reader, &model.application(id))?;
    let (charm, declared) = application::charm_of(&mut { reader }, model, id)?;
    // The base of the first unit whose machine has an instance with a known base.
    let mut units = read_all::<()>(reader, &model.units_of(id)).into_iter();
    let base = units.find_map(|(key, ())| {
        let unit = read(reader, &model.unit(last_id(&key)?))?;
        read(reader, &model.machine_instance(unit.machine))?.base
    });
    let mut relations = BTreeMap::<String, Vec<RelatedApplication>>::new();
    let mut subordinate_to = BTreeSet::new();
    let docs = read_all::<()>(reader, &model.relations_of(id));
    let docs = docs.iter().filter_map(|(key, ())| read(reader, &model.relation(last_id(key)?)));
    let mut docs: Vec<RelationDoc> = docs.collect();
    docs.sort_by_key(|relation| relation.number);
    for relation in docs {
        let Some(end) = relation.end_of(id) else { continue };
        let other = relation.other_end(id);
        relations.entry(end.endpoint.clone()).or_default().push(RelatedApplication {
            application: other.application_name.clone(),
            interface: end.interface.clone(),
            scope: relation.scope,
        });
        if relation.subordinate_link.is_some_and(|subordinate_link| subordinate_link.subordinate == id) {
            subordinate_to.insert(other.application_name.clone());
        }
    }
    let set = read(reader, &model.application_status(id));
    let is_status_set = set.is_some();
    let unknown = || StatusInfo::new(WorkloadStatus::Unknown, StatusMessage::Empty, Some(doc.created_ms));
    let status = ApplicationStatus {
        uuid: id,
        life: effective_life::application_life(&mut { reader }, model, id),
        charm_name: charm.name,
        charm_url: charm.url,
        charm_revision: charm.revision,
        charm_version: declared.version.clone(),
        base: base
            .or_else(|| doc.requested_base.clone())
            .or_else(|| declared.base().cloned())
            .unwrap_or_default(),
        exposed: read(reader, &model.application_exposed(id)).unwrap_or_default(),
        subordinate: doc.subordinate,
        fake: read(reader, &model.fake_application(id)).is_some(),
        bindings: declared.endpoints.keys().chain(&declared.extra_bindings).cloned().collect(),
        subordinate_to: subordinate_to.into_iter().collect(),
        workload_version: String::new(),
        status: set.map_or_else(unknown, StatusInfo::from),
        relations,
        units: BTreeMap::new(),
    };
    Some(ApplicationPart { name: doc.name, status, is_status_set })
}

/// Returns the name of an application and its status with its units. `units` are those of the application that exist.
pub(super) fn with_units(part: &ApplicationPart, units: Vec<UnitPart>) -> (String, ApplicationStatus) {
    let mut status = part.status.clone();
    let mut version = (0, String::new());
    for unit in &units {
        version =
            unit.workload_version.clone().filter(|(revision, _)| *revision > version.0).unwrap_or(version);
    }
    status.workload_version = version.1;
    status.units = units.into_iter().map(|unit| (unit.name, unit.status)).collect();
    if !part.is_status_set
        && let Some(worst) = worst(status.units.values().map(|unit| &unit.workload))
    {
        status.status = worst.clone();
    }
    (part.name.clone(), status)
}
