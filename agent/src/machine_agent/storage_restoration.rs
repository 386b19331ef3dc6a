//! Provides again what was provided before the host was booted, until that has succeeded once.
//!
//! A boot ends mounts, and a hook must not find its storage empty: `state::machine::plan` holds back the agents whose
//! storage is missing. They are reported as agents that could not be started.

use crate::ports::StorageHost;
use crate::unrestored_storage::UnrestoredStorage;
use state::terms::health::{Fault, ProcessEnd, UnitAgentExit};
use state::terms::names::Uuid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// What was restored since this agent started.
pub(super) struct StorageRestoration {
    /// None once everything was restored.
    unrestored: RefCell<Option<UnrestoredStorage>>,
    /// When the first attempt failed, in milliseconds of the wall clock.
    failed_ms: Cell<Option<i64>>,
    /// The units whose agents the last plan would have started.
    held_back: RefCell<BTreeSet<Uuid>>,
}

impl StorageRestoration {
    pub(super) fn new() -> StorageRestoration {
        StorageRestoration {
            unrestored: RefCell::new(Some(UnrestoredStorage::default())),
            failed_ms: Cell::default(),
            held_back: RefCell::default(),
        }
    }

    /// Attempts what is left. Returns the errors; none if everything was restored.
    pub(super) async fn attempt(&self, host: &impl StorageHost, wall_ms: i64) -> Option<String> {
        if self.unrestored.borrow().is_none() {
            return None;
        }
        let unrestored = host.restore_storage().await;
        let errors = unrestored.error_text();
        if errors.is_some() && self.failed_ms.get().is_none() {
            self.failed_ms.set(Some(wall_ms));
        }
        *self.unrestored.borrow_mut() = Some(unrestored).filter(|unrestored| !unrestored.is_empty());
        errors
    }

    pub(super) fn lacks_storage(&self, unit: Uuid) -> bool {
        self.error_of(unit).is_some()
    }

    /// Stores which agents the last plan would have started.
    pub(super) fn set_held_back(&self, units: BTreeSet<Uuid>) {
        *self.held_back.borrow_mut() = units;
    }

    /// The agents that were not started, as ends of their processes.
    pub(super) fn held_back(&self) -> Vec<(Uuid, UnitAgentExit)> {
        let since_ms = self.failed_ms.get().unwrap_or_default();
        let exit = |unit: &Uuid| {
            let (end, fault) = (ProcessEnd::NotStarted, Some(Fault::UnrestoredStorage));
            let last_error = Some(self.error_of(*unit)?);
            Some((*unit, UnitAgentExit { end, fault, last_error, since_ms, at_ms: since_ms, count: 1 }))
        };
        self.held_back.borrow().iter().filter_map(exit).collect()
    }

    fn error_of(&self, unit: Uuid) -> Option<String> {
        self.unrestored.borrow().as_ref()?.error_of(unit)
    }
}
