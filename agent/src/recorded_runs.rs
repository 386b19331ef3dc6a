//! The recorded runs of a unit for people: what ran and why, what it saw, called, changed and printed, the same run once
//! more, and a test that is made of it.
//!
//! Everything is read from the folder of the unit, so that neither the controller nor the agent is needed, and nothing in
//! it is changed. Contents of secrets are masked, as far as `state::unit::secret_mask` finds them: the files hold none,
//! except `calls.yaml` in calls that are stored with a masked copy for this purpose, and the output of a run whose agent
//! has not masked it yet, which is left out.
//!
//! `recorded_run` reads a run; `list` is `pintle-agent runs`; `show` (with `page` and `changes`) `show-run`; `replay`
//! (with `scratch`, `recorded_answers` and `differences`) `replay`; `ops_test` (with `python`) `export-run`.

mod changes;
mod differences;
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
