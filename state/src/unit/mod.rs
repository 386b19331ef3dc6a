//! The unit agent as pure functions: what it stores, what it receives from the controller, and what it does next.
//!
//! Nothing here performs I/O: the agent process reads the clock, runs hooks and talks to the controller, and passes
//! the facts in as arguments.
//!
//! Reading order: `terms::operation` (what an agent can do), `terms::activity` (what it reports while it does so),
//! `snapshot` (the view that it receives), `local` (what it stores, with the only transitions of it), `record` (what it sends),
//! `decision` and `resolve` (what it does next, in which order), `pending_operations`, `pending_relation_hook` and
//! `retry` (which operation that is), `terms::start_reason` (why), `wait_reasons` and `agent_causes` (what holds it back), `hook_context` and
//! `writes` (what a hook reads and writes), `leader_settings` (what it writes at once), `hook_context_builder`, `dispatch` and `environment` (how the hook's
//! process receives that), `commands_context` (what runs beside the hooks), `outcome` and `pending_reports` (what a finished run becomes), `run_retention` (how long its
//! folder is kept).

pub mod agent_causes;
mod chosen_operation;
pub mod commands_context;
pub mod decision;
pub mod dispatch;
pub mod dry_run;
pub mod environment;
pub mod hook_context;
pub mod hook_context_builder;
mod jitter;
pub mod leader_settings;
pub mod local;
pub mod omitted_bags;
pub mod outcome;
pub mod pending_operations;
pub mod pending_relation_hook;
pub mod pending_reports;
mod pending_secret_hook;
pub mod record;
pub mod resolve;
pub mod retry;
pub mod run_retention;
mod secret_buffer;
pub mod secrets;
pub mod snapshot;
mod wait_reasons;
pub mod workflow;
mod write_buffer;
pub mod writes;
