//! The handler of the model's status, computed in [`crate::status`].

use crate::environment::Environment;
use crate::session::Authorised;
use crate::status;
use crate::store::Store;
use api::error::ApiError;
use api::{GetStatus, Handle, Status};
use state::terms::position::Position;

impl<S: Store, O: Environment> Handle<GetStatus> for Authorised<S, O> {
    async fn handle(&self, _: GetStatus) -> Result<Status, ApiError> {
        let (presence, now_ms) = (self.controller.presence_snapshot(), self.controller.environment.wall_ms());
        let store_generation = self.controller.store.store_generation();
        let status = self.view(move |reader, model| {
            let position = Position { store_generation, revision: reader.revision() };
            Ok(status::model_status(reader, model, &presence, position, now_ms))
        });
        status.await
    }
}
