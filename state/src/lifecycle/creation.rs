//! The time and the UUIDs of the entities that a transition creates, and how many one request may create.
//!
//! The core has no clock and no randomness, so the caller supplies time and UUIDs.

use crate::documents::refusal::Refusal;
use crate::terms::names::Uuid;
use crate::terms::refusal::{AddedKind, RefusalReason};

/// Units or machines that one request may add: 17 transactions of 59 units, or one for each machine.
pub const ADDED_PER_REQUEST_MAX: u32 = 1_000;

/// The time and the UUIDs of new entities.
pub struct Creation<'a> {
    /// The current time.
    pub now_ms: i64,
    /// Returns another UUID at each call.
    pub ids: &'a mut dyn FnMut() -> Uuid,
}

impl Creation<'_> {
    /// Reborrows `self`, so that it can be passed to several transitions, one after the other.
    pub(crate) fn reborrow(&mut self) -> Creation<'_> {
        Creation { now_ms: self.now_ms, ids: &mut *self.ids }
    }
}

/// Permits a request that adds `count` units or machines.
///
/// # Errors
/// If it adds more than [`ADDED_PER_REQUEST_MAX`].
pub fn require_count(count: u32, kind: AddedKind) -> Result<(), Refusal> {
    if count <= ADDED_PER_REQUEST_MAX {
        return Ok(());
    }
    Err(RefusalReason::TooManyAdded { count, kind, max: ADDED_PER_REQUEST_MAX }.into())
}
