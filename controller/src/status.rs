//! The status of a model and its entities, computed from the documents and the presence of the agents.
//!
//! The names and texts of statuses are those that clients of Juju match (spec/clients.md 2.4, 3.4; uniter.md F.5).
//! Nothing is stored: every request computes the status again. Called by the handlers and by `why`; one file per kind of
//! entity.

mod application;
mod machine;
mod relation;
mod status_info;
mod unit;
mod unit_info;

use crate::presence::PresenceSnapshot;
use api::{ModelStatus, Status};
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{ApplicationDoc, Kind, MachineDoc, Model, last_id};
use state::terms::position::Position;
use state::terms::status::ModelState;
use state::terms::status_message::StatusMessage;
use status_info::status_info;
use std::collections::BTreeMap;

pub use machine::{MachineAgent, machine_agent};
pub use relation::relation_of_number;
pub use unit::{UnitStatuses, next_act, statuses};
pub use unit_info::unit_info;

/// Returns the status of the whole model; none if it does not exist.
pub fn model_status(
    reader: &dyn Reader,
    model: Model,
    presence: &PresenceSnapshot,
    position: Position,
    now_ms: i64,
) -> Option<Status> {
    let doc = read(reader, &model.model())?;
    let life = read(reader, &model.model_life()).unwrap_or_default();
    let relations = relation::relations(reader, model);
    let mut applications = BTreeMap::new();
    for (key, app) in read_all::<ApplicationDoc>(reader, &model.prefix(Kind::Application)) {
        let id = last_id(&key).expect("an application's key ends with its id");
        // An application without its charm is damaged on disk; the others are shown.
        let status = application::application_status(reader, model, presence, id, &app, &relations);
        applications.extend(status.map(|status| (app.name.clone(), status)));
    }
    let mut machines = BTreeMap::new();
    for (key, machine) in read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine)) {
        let id = last_id(&key).expect("a machine's key ends with its id");
        machines.insert(machine.name.clone(), machine::machine_status(reader, model, presence, id, machine));
    }
    Some(Status {
        position,
        now_ms,
        model: ModelStatus {
            name: doc.name,
            uuid: model.0,
            life,
            controller: "here".to_owned(),
            cloud: "local".to_owned(),
            region: "local".to_owned(),
            version: api::JUJU_VERSION.to_owned(),
            status: match read(reader, &model.model_destruction()) {
                Some(destruction) => {
                    status_info(ModelState::Destroying, StatusMessage::Empty, Some(destruction.since_ms))
                }
                None => status_info(ModelState::Available, StatusMessage::Empty, Some(doc.created_ms)),
            },
        },
        machines,
        applications,
        relations: relations
            .iter()
            .map(|(id, doc)| relation::relation_status(reader, model, *id, doc))
            .collect(),
    })
}
