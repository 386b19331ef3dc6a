//! The time and the UUIDs of the entities that a transition creates.
//!
//! The core has no clock and no randomness, so the caller supplies both.

use crate::terms::names::Uuid;

/// The time and the UUIDs of new entities.
pub struct Creation<'a> {
    /// The current time.
    pub now_ms: i64,
    /// Returns another UUID at each call.
    pub ids: &'a mut dyn FnMut() -> Uuid,
}

impl Creation<'_> {
    /// The same, lent to one of several transitions.
    pub(crate) fn reborrow(&mut self) -> Creation<'_> {
        Creation { now_ms: self.now_ms, ids: &mut *self.ids }
    }
}
