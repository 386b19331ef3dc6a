//! The recorded runs of a unit for people: what ran and why, what it saw, called, changed and printed, the same run once
//! more, and a test that is made of it.
//!
//! Everything is read from the folder of the unit, so that neither the controller nor the agent is needed, and nothing in
//! it is changed. What is printed is masked (`state::unit::secret_mask`, best effort). The folder itself is not safe to
//! share: `context.yaml`, some lines of `calls.yaml` and the output of an unfinished run may contain secret contents.
//!
//! `recorded_run` reads a run; `list` is `pintle-agent runs`; `show` (with `page` and `changes`) `show-run`; `replay`
//! (with `scratch`, `recorded_answers` and `differences`) `replay`; `ops_test` (with `expectation` and `python`) `export-run`.

mod changes;
mod differences;
mod expectation;
mod list;
mod ops_test;
mod page;
mod python;
mod recorded_answers;
mod recorded_run;
mod replay;
mod scratch;
mod show;

pub use list::list;
pub use ops_test::export;
pub use recorded_run::DocumentFormat;
pub use replay::{REPLAY_TIMEOUT, ReplayOptions, replay};
pub use show::show;
