//! What only tests use and more than one crate needs: a store in memory, and the invariants of the documents.
//!
//! The product never depends on this crate. The unit tests of `state` include `invariants.rs` as a file, because a
//! crate that depends on `state` sees other types than these tests.

pub mod invariants;
pub mod memory_store;
