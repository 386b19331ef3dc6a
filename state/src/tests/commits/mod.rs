//! Tests of records: applied exactly once, in order, according to the table of writes.

mod bounds;
pub mod fixture;
mod records;
mod reports;
mod resyncs;
mod secret_labels;
mod secret_room;
mod secrets;
mod sessions;
mod teardown;
mod writes;
