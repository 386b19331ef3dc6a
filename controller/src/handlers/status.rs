//! The handlers of the model's status, computed in [`crate::status`], and of the statuses that an entity has had.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::lookup::find_unit;
use crate::status::{self, Sources, StatusCache};
use crate::store::Store;
use crate::store::unavailable::{damage_error, write_failure_cause};
use api::error::ApiError;
use api::{GetStatus, GetStatusLog, Handle, Status, StatusLog};
use state::documents::draft::read;
use state::documents::refusal::Refusal;
use state::lifecycle::{application, machine};
use state::status::model::status_log;
use state::terms::cause::Entity;
use state::terms::position::Position;
use state::terms::refusal::EntityKind;
use state::transitions::machine_status_log;

/// The maximum number of damaged documents that a status names: about 10 KB.
const DAMAGED_MAX: usize = 100;

impl<S: Store, E: Environment> Handle<GetStatus> for Authorised<S, E> {
    async fn handle(&self, _: GetStatus) -> Result<Status, ApiError> {
        let model = self.model().await?;
        let controller = &self.controller;
        let cache = controller.status_caches.of(model, controller.environment.monotonic_ms());
        let mut cache = cache.lock_owned().await;
        let (presence, now_ms) = (controller.presence_when_read(), controller.environment.wall_ms());
        let store_generation = controller.store.store_generation();
        let read = controller.store.read_since(cache.position(), move |reader, changed| {
            let position = Position { store_generation, revision: reader.revision() };
            cache.advance(changed, position);
            let sources = Sources { reader, model, presence: &presence() };
            (status::model_status(&mut cache, &sources, position, now_ms), cache)
        });
        let ((status, mut cache), damaged) = read.await;
        if !damaged.is_empty() {
            // Parts of the status that were computed without a damaged document must not be used again.
            *cache = StatusCache::default();
        }
        match status {
            Some(status) => {
                let store = write_failure_cause(&controller.store, Entity::Model(status.model.name.clone()));
                let damaged = damaged.into_iter().take(DAMAGED_MAX).collect();
                Ok(Status { damaged, store, ..status })
            }
            None if !damaged.is_empty() => Err(damage_error(&damaged)),
            None => Err(controller.refusal_error(Refusal::not_found(EntityKind::Model, model.0)).await),
        }
    }
}

impl<S: Store, E: Environment> Handle<GetStatusLog> for Authorised<S, E> {
    async fn handle(&self, get: GetStatusLog) -> Result<StatusLog, ApiError> {
        let changes = self.read(move |reader, model| {
            let log = |id| read(reader, &model.status_log(id)).unwrap_or_default().changes;
            match &get {
                GetStatusLog::Unit(unit) => Ok(log(find_unit(reader, model, unit)?.0)),
                GetStatusLog::Application(name) => Ok(log(application::find(&mut { reader }, model, name)?)),
                GetStatusLog::Machine(name) => {
                    let id = machine::find(&mut { reader }, model, name)?;
                    let doc = read(reader, &model.machine(id));
                    let doc = doc.ok_or_else(|| Refusal::not_found(EntityKind::Machine, name))?;
                    Ok(machine_status_log::read(&mut { reader }, model, id, &doc).changes)
                }
                GetStatusLog::Model => {
                    let doc = read(reader, &model.model());
                    let doc = doc.ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))?;
                    Ok(status_log(reader, model, &doc))
                }
            }
        });
        Ok(StatusLog { changes: changes.await? })
    }
}
