//! Tests of dry runs of removals: what a dry run predicts. The expected hooks are those of spec A.7, H.6 and H.7; the
//! removals themselves are tested in `lifecycle` and by the simulator.

mod blockers;
mod bounds;
pub mod fixture;
mod hooks;
mod models;
