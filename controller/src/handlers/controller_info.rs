//! Handlers of requests about the controller itself: its versions and its API document.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::openapi;
use crate::store::Store;
use api::error::ApiError;
use api::{ControllerInfo, GetAbout, GetOpenApi, Handle};
use serde_json::Value;

impl<S: Store, E: Environment> Handle<GetAbout> for Authorised<S, E> {
    async fn handle(&self, _: GetAbout) -> Result<ControllerInfo, ApiError> {
        Ok(ControllerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            juju_version: api::JUJU_VERSION.to_owned(),
            controller: self.controller.id,
            store_generation: self.controller.store.store_generation(),
        })
    }
}

impl<S: Store, E: Environment> Handle<GetOpenApi> for Authorised<S, E> {
    async fn handle(&self, _: GetOpenApi) -> Result<Value, ApiError> {
        Ok(openapi::document())
    }
}
