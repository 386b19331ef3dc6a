//! `why`: the times since which operations are pending, and the causes for silent agents and removals.

mod bounds;
mod fixture;
mod health;
mod machines;
mod pending;
mod removals;
#[path = "../support/mod.rs"]
mod support;
