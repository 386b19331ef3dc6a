//! `why` names the actor that must act, since when it is awaited, and the command that helps (issue 4.3).

mod fixture;
mod machines;
mod refusals;
mod relations;
#[path = "../support/mod.rs"]
mod support;
mod units;
