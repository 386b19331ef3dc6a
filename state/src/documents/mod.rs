//! The documents of the store, and how transitions read and write them (design 5).
//!
//! `draft` records every read of a transition as its precondition; `document_reads` is what transitions and views read
//! alike; `json_text` is the text of one. `key` composes and parses keys. The documents and their keys are in one file per
//! noun (`unit`, `relation`, ...); `prelude` re-exports them. `effective_life` derives the life of an entity; `attachment`
//! is whether an agent has attached; `fake_application` whether a unit has an agent; `existence` is what is known about a uuid;
//! `blockers` computes what a removal waits for; `invariants` and `typed` verify what is stored; `refusal` is the answer
//! of a transition that is not allowed. The transitions are in `lifecycle`, `agents`, `transitions` and `restore`; here
//! are only the changes that several of them make (`token`, `sequence`).

pub mod action;
pub mod application;
pub mod attachment;
pub mod blockers;
pub mod document_reads;
pub mod draft;
pub mod effective_life;
pub mod existence;
pub mod fake_application;
pub mod invariants;
pub mod json_text;
pub mod key;
pub mod log;
pub mod machine;
pub mod model;
pub mod prelude;
pub mod refusal;
pub mod relation;
pub mod removal;
pub mod secret;
pub(crate) mod sequence;
pub mod status;
pub mod storage;
pub mod token;
pub mod token_holder;
pub mod typed;
pub mod unit;
