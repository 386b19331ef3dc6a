//! What an entity waits for.

use crate::outside::Outside;
use crate::session::Authorised;
use crate::store::Store;
use crate::why;
use api::error::ApiError;
use api::{GetWhy, Handle, Why};

impl<S: Store, O: Outside> Handle<GetWhy> for Authorised<S, O> {
    async fn handle(&self, get: GetWhy) -> Result<Why, ApiError> {
        let roll = self.controller.roll();
        let (entity, now_ms) = (get.entity, self.controller.outside.wall_ms());
        let (written, waits) = (self.controller.written.clone(), self.controller.waits.clone());
        let why = self
            .view(move |reader, model| why::of(reader, model, (&roll, &written, &waits), &entity, now_ms));
        why.await
    }
}
