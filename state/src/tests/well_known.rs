//! Values that the tests of several modules expect.

use crate::documents::refusal::Refusal;
use crate::terms::names::UnitName;
use crate::terms::refusal::EntityKind;

/// Unit web/0.
pub fn web0() -> UnitName {
    UnitName::new("web", 0)
}

/// The answer of [`World::run`](super::World::run) to a stale draft whose reads no longer hold: a refusal that no transition returns.
pub fn stale() -> Refusal {
    Refusal::not_found(EntityKind::Model, "of the stale draft")
}
