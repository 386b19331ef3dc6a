//! What the controller answers: one file per noun, one implementation of `Handle` per request type (`api`).
//!
//! The caller of each may send it: `Session` checks that before it calls a handler. Writes are the transitions of
//! `state::model`; what is only read is put together in `status`, `why` and `log`.

mod about;
mod actions;
mod applications;
mod archives;
mod changes;
mod log;
mod machine_agent;
mod machines;
mod models;
mod provisioning;
mod relations;
mod removal;
mod status;
pub mod unit_agent;
mod units;
mod why;

use crate::environment::Environment;
use crate::named::find_model;
use crate::session::Authorised;
use crate::store::Store;
use api::Changed;
use api::error::ApiError;
use state::documents::draft::Reader;
use state::documents::keys::Model;
use state::documents::refusal::Refusal;

fn changed(revision: u64) -> Changed {
    Changed { revision, warnings: Vec::new() }
}

impl<S: Store, O: Environment> Authorised<S, O> {
    /// Reads something of the model that the request is about.
    async fn view<T, F>(&self, view: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Model) -> Result<T, Refusal> + Send + 'static,
    {
        let model = self.model.clone();
        let read = self.controller.read(move |reader| view(reader, find_model(reader, &model)?)).await;
        match read {
            Ok(seen) => Ok(seen),
            Err(refusal) => Err(self.controller.refusal_error(refusal).await),
        }
    }

    /// The model that the request is about.
    async fn model(&self) -> Result<Model, ApiError> {
        self.view(|_, model| Ok(model)).await
    }
}
