//! All decisions of Pintle, as pure code.
//! This crate performs no I/O, reads no clock, draws no random numbers, is not async and iterates over no
//! hash-ordered map. Time and identifiers are arguments. The same inputs therefore always give the same
//! decision, which lets the simulator replay whole runs from a seed.
//!
//! Reading order: `charm` (what a charm declares) and `terms` (the types that all but `charm` import); `unit`
//! (what one unit agent stores, observes and runs next) and `machine` (what the machine agent and the provisioner
//! do); `documents` (what the store holds); `lifecycle` (the transitions of entities), `agents` (sessions, and which
//! record is the next), `restore` (what changes after a backup was restored), `views` (what the controller sends to
//! agents) and `transitions` (those that are no step of one lifecycle); `status` and `why` (what people are shown).
//!
//! This is also the order of imports: a module imports only modules before it.
//! `charm` < `terms` < `unit` < `machine` < `documents` < `lifecycle` < `agents` < `restore` < `views` < `transitions`
//! < `status` < `why`

#![warn(missing_docs)]

pub mod agents;
pub mod charm;
pub mod documents;
pub mod lifecycle;
pub mod machine;
pub mod restore;
pub mod status;
pub mod terms;
pub mod transitions;
pub mod unit;
pub mod views;
pub mod why;

// the test fixtures, which other crates use as well, import this crate as `state`
#[cfg(test)]
extern crate self as state;
#[cfg(test)]
mod tests;
