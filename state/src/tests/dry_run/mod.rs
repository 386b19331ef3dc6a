//! Tests of dry runs of removals (issue 4): what a dry run predicts is what the removal does. The expected hooks are those
//! of spec A.7, H.6 and H.7.

mod blockers;
mod bounds;
pub mod fixture;
mod hooks;
mod models;
