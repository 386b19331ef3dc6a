//! Tests of the lifecycles: the scenarios of spec H.13, by number. Every commit is checked against the invariants.

mod application_settings;
mod applications;
mod blockers;
pub mod fixture;
mod machines;
mod models;
mod resources;
mod ssh_keys;
mod units;
