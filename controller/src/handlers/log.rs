//! The handler of debug-log: pages of log lines, computed in [`crate::debug_log`].

use crate::callers::Authorised;
use crate::debug_log;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{Handle, LogPage, LogQuery};

impl<S: Store, E: Environment> Handle<LogQuery> for Authorised<S, E> {
    async fn handle(&self, query: LogQuery) -> Result<LogPage, ApiError> {
        let model = self.model().await?;
        debug_log::page(&self.controller, model, query).await
    }
}
