//! The handler of the model's status, computed in [`crate::status`].

use crate::environment::Environment;
use crate::session::Authorised;
use crate::status;
use crate::store::Store;
use api::error::ApiError;
use api::{GetStatus, Handle, Status};
use state::documents::refusal::Refusal;
use state::terms::position::Position;
use state::terms::refusal::EntityKind;

impl<S: Store, E: Environment> Handle<GetStatus> for Authorised<S, E> {
    async fn handle(&self, _: GetStatus) -> Result<Status, ApiError> {
        let (presence, now_ms) = (self.controller.presence_snapshot(), self.controller.environment.wall_ms());
        let store_generation = self.controller.store.store_generation();
        let status = self.view_available(move |reader, model| {
            let position = Position { store_generation, revision: reader.revision() };
            let status = status::model_status(reader, model, &presence, position, now_ms);
            status.ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))
        });
        Ok(status.await?.0)
    }
}
