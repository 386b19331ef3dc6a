//! The status of a model and its entities, computed from the documents and the presence of the agents.
//!
//! `state::status` decides the statuses; this module reads what is shown beside them. Nothing is stored. The parts that
//! were computed for one request are used for later ones as long as nothing that they depend on has changed (`cache`).
//! Called by the handlers; one file per kind of entity.

mod application;
mod cache;
mod machine;
mod model;
mod recorded;
mod relation;
mod shared_documents;
mod unit;
mod unit_info;

use api::Status;
use model::ModelParts;
use shared_documents::SharedDocuments;
use state::terms::position::Position;

pub(crate) use cache::StatusCaches;
pub use cache::{Sources, StatusCache};
pub use unit_info::unit_info;

/// Returns the status of the whole model; none if it does not exist. `cache` contains the parts that were computed
/// before and are valid at this position ([`StatusCache::advance`]).
pub fn model_status(
    cache: &mut StatusCache,
    sources: &Sources<'_>,
    position: Position,
    now_ms: i64,
) -> Option<Status> {
    let shared = SharedDocuments::new(sources.reader);
    let sources = &Sources { reader: &shared, ..*sources };
    let ModelParts { status, machines, applications, relations } = cache.model(sources).clone()?;
    // Entities whose documents are damaged on disk are left out.
    let machines = machines.iter().filter_map(|id| cache.machine(*id, sources).clone()).collect();
    let applications = applications.iter().filter_map(|id| {
        let units = cache.members(*id, sources);
        let units = units.iter().filter_map(|id| cache.unit(*id, sources).clone()).collect();
        Some(application::with_units(cache.application(*id, sources).as_ref()?, units))
    });
    let applications = applications.collect();
    let relations = relations.iter().filter_map(|id| cache.relation(*id, sources).clone()).collect();
    Some(Status {
        position,
        now_ms,
        model: status,
        machines,
        applications,
        relations,
        damaged: Vec::new(),
        store: None,
    })
}
