//! How fast the debug logs of the models grow, in memory only.
//!
//! The janitor measures a log in pages, with pauses. The handlers of records and reports count the bytes that they have
//! stored; a log that has grown by [`GROWTH_MAX`] since it was last measured is measured at once and without pauses, so
//! that a flood is stopped near the bound.

use state::documents::prelude::Model;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The log of a model may grow by this many bytes before it is measured without pauses: 1 MiB, an eighth of the bound.
const GROWTH_MAX: u64 = 1 << 20;

/// The bytes of log lines that each model has received since its log was last measured.
#[derive(Default)]
pub(crate) struct LogGrowth(Mutex<BTreeMap<Uuid, u64>>);

impl LogGrowth {
    /// Counts the bytes of log lines that were stored. Returns whether the log must be measured now.
    pub(crate) fn add(&self, model: Model, bytes: u64) -> bool {
        let mut grown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total = grown.entry(model.0).or_default();
        *total = total.saturating_add(bytes);
        bytes > 0 && *total >= GROWTH_MAX
    }

    /// Whether the log of a model must be measured now; if so, counting starts again.
    pub(crate) fn take(&self, model: Model) -> bool {
        let mut grown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_large = grown.get(&model.0).is_some_and(|bytes| *bytes >= GROWTH_MAX);
        is_large && grown.remove(&model.0).is_some()
    }

    /// Forgets the models for which `exists` is false.
    pub(crate) fn retain(&self, exists: impl Fn(&Uuid) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|model, _| exists(model));
    }
}
