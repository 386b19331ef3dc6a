//! What is decided: pure. No I/O, no clock, no randomness, no async, no hash-ordered maps; time comes in as an
//! argument.
//!
//! Reading order: `names`, `life`, `status`, `settings`, `charm`, `cause` (why something waits); then `model` (documents, drafts, transitions: what the
//! controller may change); then `unit` (what one unit agent remembers, sees and does next); then `machine`.

pub mod cause;
pub mod charm;
pub mod life;
pub mod machine;
pub mod model;
pub mod names;
pub mod settings;
pub mod status;
pub mod unit;
pub mod words;
