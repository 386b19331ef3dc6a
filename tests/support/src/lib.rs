//! What only tests use and more than one crate needs: a store in memory, the context of a hook, the invariants of the
//! documents, the golden files, and the list of skipped tests.
//!
//! The product never depends on this crate.

pub mod golden;
pub mod hook_context;
pub mod memory_store;
pub mod skipped;

pub use state::documents::invariants;
