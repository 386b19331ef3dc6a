//! `why` names the actor that must act, the time since which it is awaited, and the command that helps.

mod fixture;
mod machines;
mod refusals;
mod relations;
#[path = "../support/mod.rs"]
mod support;
mod units;
