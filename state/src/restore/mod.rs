//! What follows the restore of a store from a backup (design 4, 6).
//!
//! When a unit agent attaches, it compares its own state with the controller's ([`reconciliation`]). If the
//! unit is ahead of a restored store, it sends everything that it has published ([`resync`]). Relations that it
//! could not re-enter then are pending (`lifecycle::pending_reentry`). Nothing that an agent has published is lost, and
//! records of two copies of one folder never mix.

pub mod reconciliation;
pub mod resync;
