//! All decisions of Pintle, as pure code: no I/O, no clock, no randomness, no async, no hash-ordered maps. Time comes in
//! as an argument.
//!
//! Reading order: `terms` (the types that everything else imports) and `charm` (what a charm declares); `documents` (what
//! the store holds), `lifecycle` and `operations` (the transitions over it), `views` (what agents are shown) and `restore`
//! (after a backup was restored); then `unit` (what one unit agent stores, sees and does next) and `machine` (what the
//! machine agent and the provisioner do).

pub mod charm;
pub mod documents;
pub mod lifecycle;
pub mod machine;
pub mod operations;
pub mod restore;
pub mod terms;
pub mod unit;
pub mod views;

#[cfg(test)]
mod tests;
