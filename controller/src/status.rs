//! The status of a model and its entities, computed from the documents and the presence of the agents.
//!
//! The names and texts of statuses are those that clients of Juju match (spec/clients.md 2.4, 3.4; uniter.md F.5).
//! Nothing is stored. What was computed for one request is used by the next ones as long as it is the same (`cache`).
//! Called by the handlers and by `why`; one file per kind of entity.

mod application;
mod cache;
mod machine;
mod recorded;
mod relation;
mod shared_documents;
mod status_info;
mod unit;
mod unit_info;

use api::{ModelStatus, Status};
use cache::ModelParts;
use shared_documents::SharedDocuments;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, Model, last_id};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::terms::status::ModelState;
use state::terms::status_message::StatusMessage;
use status_info::status_info;
use std::sync::Arc;

pub(crate) use cache::StatusCaches;
pub use cache::{Sources, StatusCache};
pub use machine::{MachineAgent, machine_agent};
pub use relation::relation_of_number;
pub use unit::{UnitStatuses, next_act, statuses};
pub use unit_info::unit_info;

/// Returns the status of the whole model; none if it does not exist. `cache` has the parts that were computed before and
/// are valid at this position ([`StatusCache::advance`]).
pub fn model_status(
    cache: &mut StatusCache,
    sources: &Sources<'_>,
    position: Position,
    now_ms: i64,
) -> Option<Status> {
    let shared = SharedDocuments::new(sources.reader);
    let sources = &Sources { reader: &shared, ..*sources };
    let ModelParts { status, machines, applications, relations } = cache.model(sources).clone()?;
    // What is damaged on disk is absent; the others are shown.
    let machines = machines.iter().filter_map(|id| cache.machine(*id, sources).clone()).collect();
    let applications = applications.iter().filter_map(|id| {
        let units = cache.members(*id, sources);
        let units = units.iter().filter_map(|id| cache.unit(*id, sources).clone()).collect();
        Some(application::with_units(cache.application(*id, sources).as_ref()?, units))
    });
    let applications = applications.collect();
    let relations = relations.iter().filter_map(|id| cache.relation(*id, sources).clone()).collect();
    Some(Status { position, now_ms, model: status, machines, applications, relations })
}

/// Returns the model itself and its entities; none if it does not exist.
fn model_parts(reader: &dyn Reader, model: Model) -> Option<ModelParts> {
    let doc = read(reader, &model.model())?;
    let relations = relation::relations(reader, model).into_iter();
    Some(ModelParts {
        status: ModelStatus {
            name: doc.name,
            uuid: model.0,
            life: read(reader, &model.model_life()).unwrap_or_default(),
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
        machines: ids(reader, &model.prefix(Kind::Machine)),
        applications: ids(reader, &model.prefix(Kind::Application)),
        relations: relations.map(|(id, _)| id).collect(),
    })
}

/// Returns the ids at the end of all keys below a prefix.
fn ids(reader: &dyn Reader, prefix: &str) -> Arc<[Uuid]> {
    reader.scan(prefix, "", usize::MAX).iter().filter_map(|stored| last_id(&stored.key)).collect()
}
