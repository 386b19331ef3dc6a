//! The requests of operators about a model, on the in-memory store: one file per noun.

mod actions;
mod causes;
mod charms;
mod machines;
mod models;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod units;
