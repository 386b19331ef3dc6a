//! Tests of records: applied exactly once, in order, according to the table of writes.

pub mod fixture;
mod records;
mod reports;
mod resyncs;
mod secrets;
mod sessions;
mod writes;
mod teardown;
