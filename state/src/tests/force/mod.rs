//! Tests of removal by force (spec H.6 81, 83, 87; E.8#9, #21; I24, I27) and of the teardown budget.
//!
//! No agent acts unless a test makes it.

mod budget;
mod destroyed;
pub mod fixture;
mod groups;
mod units;
