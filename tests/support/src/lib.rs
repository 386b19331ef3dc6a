//! Test code that more than one crate needs: a store in memory, an etcd of three members, the context of a hook, the
//! invariants of the documents, the golden files, and the list of skipped tests.
//!
//! The product never depends on this crate.

pub mod etcd_cluster;
pub mod golden;
pub mod hook_context;
pub mod memory_store;
pub mod skipped;

pub use state::documents::invariants;
