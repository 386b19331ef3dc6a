//! Documents, drafts and the transitions over them: what the controller may change, and only how.
//!
//! Reading order: `draft` (reads are the precondition), `keys` (every document), `effective` (life is derived
//! downwards), `refusal` (why not); then one file per entity: `model`, `machine`, `application`, `unit`, `relation`,
//! `leadership`, `session`, `hook_commit` with `said` (what units send), `action`, `cleanup`, `force` (removal
//! in place of an agent that is gone), `destruction` (of a whole model); then what is only
//! read: `view` with `delta` and `along` (what a unit is shown), `blockers` and `waiting` (why something waits), `removal` (foretold), `invariants`.

pub mod action;
pub mod along;
pub mod application;
pub mod blockers;
pub mod cleanup;
pub mod delta;
pub mod destruction;
mod documents;
pub mod draft;
pub mod effective;
pub mod force;
pub mod hook_commit;
pub mod instance;
pub mod invariants;
pub mod key;
pub mod keys;
pub mod leadership;
pub mod machine;
#[expect(clippy::module_inception, reason = "the model is one of the entities")]
pub mod model;
pub mod refusal;
pub mod relation;
pub mod removal;
pub mod restate;
pub mod said;
mod sequence;
pub mod session;
pub mod text;
mod token;
pub mod unit;
pub mod view;
pub mod waiting;

#[cfg(test)]
mod tests;
