//! The request handlers: one file per noun, one implementation of `Handle` per request type of `api`.
//!
//! Handlers are implemented on [`Authorised`], so the caller is authorised before a handler runs; for files that the server
//! receives or sends in pieces, `store_received` and `open_requested` check the caller themselves. Every write is a
//! transition of `state`; a handler finds what a request names, and reads and writes no document of a draft (`cargo
//! tidy`). Larger read-only responses are computed in `status`, `why` and `debug_log`.

mod actions;
mod applications;
mod archives;
mod changes;
mod constraints;
mod controller_info;
mod development;
mod disk_usage;
mod log;
mod machine_agent;
mod machines;
mod models;
mod provisioning;
mod relations;
mod removal;
mod resources;
mod sealing;
mod secrets;
mod ssh_keys;
mod status;
mod storage;
pub mod unit_agent;
mod units;
mod user_secrets;
mod why;

use crate::callers::Authorised;
use crate::environment::{Environment, Uuids};
use crate::lookup::find_model;
use crate::store::Store;
use crate::store::unavailable::damage_error;
use api::WriteResponse;
use api::error::ApiError;
use state::documents::draft::{Draft, Reader};
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::creation::Creation;
use state::terms::position::Committed;

fn changed(revision: u64) -> WriteResponse {
    WriteResponse { revision, warnings: Vec::new() }
}

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Reads documents of the model that the request refers to. An error if the model does not exist.
    async fn read<T, F>(&self, read: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Model) -> Result<T, Refusal> + Send + 'static,
    {
        let model = self.model.clone();
        let result = self.controller.read(move |reader| read(reader, find_model(reader, &model)?)).await;
        match result {
            Ok(value) => Ok(value),
            Err(refusal) => Err(self.controller.refusal_error(refusal).await),
        }
    }

    /// Reads like [`Self::read`], without the documents that are damaged on disk. Also returns the names of those that
    /// were read.
    async fn read_available<T, F>(&self, read: F) -> Result<(T, Vec<String>), ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Model) -> Result<T, Refusal> + Send + 'static,
    {
        let model = self.model.clone();
        let store = &self.controller.store;
        let available = store.read_available(move |reader| read(reader, find_model(reader, &model)?));
        match available.await {
            (Ok(value), damaged) => Ok((value, damaged)),
            (Err(refusal), damaged) if damaged.is_empty() => {
                Err(self.controller.refusal_error(refusal).await)
            }
            (Err(_), damaged) => Err(damage_error(&damaged)),
        }
    }

    /// Runs a transition in the model that the request refers to.
    async fn change<F>(&self, transition: F) -> Result<WriteResponse, ApiError>
    where
        F: Fn(&mut Draft<'_>, Model) -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let model = self.model().await?;
        let committed = self.controller.run(move |draft: &mut Draft<'_>| transition(draft, model)).await?;
        Ok(changed(committed.revision))
    }

    /// Runs a transition that creates entities. Each retry of the transition receives the same uuids.
    async fn create<T, F>(&self, transition: F) -> Result<Committed<T>, ApiError>
    where
        T: Send + 'static,
        F: Fn(&mut Draft<'_>, Creation<'_>) -> Result<T, Refusal> + Send + Sync + 'static,
    {
        let (now_ms, ids) = (self.controller.environment.wall_ms(), Uuids::new(&self.controller.environment));
        let transition =
            move |draft: &mut Draft<'_>| transition(draft, Creation { now_ms, ids: &mut ids.generator() });
        self.controller.run(transition).await
    }

    /// Returns the model that the request refers to. An error if it does not exist.
    async fn model(&self) -> Result<Model, ApiError> {
        self.read(|_, model| Ok(model)).await
    }
}
