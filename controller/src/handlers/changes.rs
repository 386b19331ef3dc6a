//! The handler of the long poll for the next change of the store.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{Handle, LONG_POLL_MS, WaitForChange};
use state::terms::position::Position;

impl<S: Store, E: Environment> Handle<WaitForChange> for Authorised<S, E> {
    async fn handle(&self, wait: WaitForChange) -> Result<Position, ApiError> {
        let after = wait.after;
        self.model().await?;
        let after = after.filter(|after| after.store_generation == self.controller.store.store_generation());
        if let Some(after) = after.filter(|after| after.revision >= self.controller.store.newest_revision()) {
            let until_ms = self.controller.environment.monotonic_ms() + LONG_POLL_MS;
            self.controller.wait_past_until(after.revision, until_ms).await;
        }
        Ok(self.controller.position(self.controller.store.newest_revision()))
    }
}
