//! The models for which the janitor has something to do before its next regular sweep, in memory only.
//!
//! A handler adds the model that its request has changed, and the janitor sweeps these models alone: a request must not
//! wait for the sweep of all other models.

use state::terms::names::Uuid;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The models that are to be swept now.
#[derive(Default)]
pub(crate) struct UrgentModels {
    models: Mutex<BTreeSet<Uuid>>,
    added: Notify,
}

impl UrgentModels {
    /// Adds a model, and wakes the janitor.
    pub(crate) fn add(&self, model: Uuid) {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).insert(model);
        self.added.notify_one();
    }

    /// Returns the models that were added since the last call.
    pub(crate) fn take(&self) -> BTreeSet<Uuid> {
        std::mem::take(&mut *self.models.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a model is added, unless that has happened since the last call.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }
}
