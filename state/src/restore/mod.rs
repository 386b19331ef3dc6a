//! The protocol between a unit agent and a store that was restored from a backup (design 4, 6).
//!
//! When a unit agent attaches, it compares its own state with the controller's (`agents::reconciliation`). If the
//! unit is ahead of a restored store, it sends everything that it has published ([`resync`]). Relations that it cannot
//! re-enter then are stored as pending (`lifecycle::pending_reentry`). Nothing that an agent has published is lost, and
//! records of two copies of one folder never mix.

pub mod resync;
mod resync_storage;
