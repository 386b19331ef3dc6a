//! What only tests use and more than one crate needs: a store in memory, the context of a hook, and the invariants of the
//! documents.
//!
//! The product never depends on this crate.

pub mod hook_context;
pub mod memory_store;

pub use state::documents::invariants;
