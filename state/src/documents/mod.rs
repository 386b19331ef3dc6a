//! The documents of the store, and how transitions read and write them (design 5).
//!
//! `draft` records every read of a transition as its precondition; `keys` re-exports the keys and types of
//! all documents from one file per noun; `effective_life` derives lives from those above; `blockers` computes
//! what a removal waits for; `invariants` and `typed` verify what is stored; `refusal` is the answer of a transition that is not allowed. Nothing here changes
//! the model: that is `lifecycle` and `operations`.

pub mod action;
pub mod application;
pub mod blockers;
pub mod draft;
pub mod effective_life;
pub mod invariants;
pub mod json_text;
pub mod key;
pub mod log;
pub mod machine;
pub mod model;
pub mod prelude;
pub mod principal;
pub mod refusal;
pub mod relation;
pub mod removal;
pub mod secret;
pub(crate) mod sequence;
pub mod status;
pub mod token;
pub mod typed;
pub mod unit;
