//! `why` over time: since when operations are pending, and the causes for silent agents.

mod bounds;
mod fixture;
mod health;
mod machines;
mod pending;
mod removals;
#[path = "../support/mod.rs"]
mod support;
