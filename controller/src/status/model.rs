//! The status of a model itself, and the ids of the entities in it.

use api::ModelStatus;
use state::documents::draft::{Reader, read};
use state::documents::effective_life;
use state::documents::prelude::{Kind, Model, last_id};
use state::status::model::model_state;
use state::status::relation::relations;
use state::terms::names::Uuid;
use std::sync::Arc;

/// The status of a model itself, and the ids of the entities in it.
#[derive(Clone)]
pub(super) struct ModelParts {
    pub(super) status: ModelStatus,
    pub(super) machines: Arc<[Uuid]>,
    pub(super) applications: Arc<[Uuid]>,
    /// In the order of their numbers.
    pub(super) relations: Arc<[Uuid]>,
}

/// Returns the status of the model itself and the ids of its entities; none if it does not exist.
pub(super) fn model_parts(reader: &dyn Reader, model: Model) -> Option<ModelParts> {
    let doc = read(reader, &model.model())?;
    let relations = relations(reader, model).into_iter();
    Some(ModelParts {
        status: ModelStatus {
            uuid: model.0,
            life: effective_life::model_life(&mut { reader }, model),
            controller: api::CONTROLLER_NAME.to_owned(),
            cloud: api::CLOUD_NAME.to_owned(),
            region: api::REGION_NAME.to_owned(),
            version: api::JUJU_VERSION.to_owned(),
            status: model_state(reader, model, &doc),
            name: doc.name,
        },
        machines: ids(reader, &model.prefix(Kind::Machine)),
        applications: ids(reader, &model.prefix(Kind::Application)),
        relations: relations.map(|(id, _)| id).collect(),
    })
}

/// Returns the ids at the end of all keys below a prefix.
pub(super) fn ids(reader: &dyn Reader, prefix: &str) -> Arc<[Uuid]> {
    reader.scan(prefix, "", usize::MAX).iter().filter_map(|stored| last_id(&stored.key)).collect()
}
