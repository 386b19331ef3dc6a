//! The unit agent as pure functions: what it stores, what it receives from the controller, and what it does next.
//!
//! Nothing here performs I/O: the agent process reads the clock, runs hooks, sends requests to the controller, and
//! passes the facts in as arguments.
//!
//! Reading order:
//! * `terms::operation` (what an agent can do), `terms::activity` (what it reports meanwhile), `terms::start_reason`
//!   (why it does so);
//! * `snapshot` (the view that the agent receives), `local` (its stored state), `record` (what it sends);
//! * `relation_view`, `storage` and `secrets` (parts of the view, and how a unit changes its secrets);
//! * `decision` and `resolve` (what it does next), `pending_operations` and `retry` (which operation that is),
//!   `pending_relation_hook`, `pending_secret_hook` and `pending_storage_hook` (which hook of relations, secrets and
//!   storage), `chosen_operation` (how it starts), `wait_causes` and `agent_causes` (why it waits);
//! * `hook_context`, `hook_relation` and `writes` (what a hook reads and writes), `write_buffer`, `secret_buffer`,
//!   `leader_settings` and `omitted_bags` (what the hook tools do with both), `hook_context_builder`, `dispatch` and
//!   `environment` (what the hook's process receives), `warm_dispatch` (which programs a warm parent can fork)
//!   and `parent_memory` (whether the host has memory for one), `commands_context` (the context of commands), `debug_session` (which hooks run in a terminal);
//! * `run_exit` and `required_files` (how a run has ended), `outcome` and `pending_reports` (the record and the reports of a run), `hook_log` and `logging_config` (its log lines),
//!   `secret_mask` and `middle_cut` (what is masked and shortened in its output), `run_retention` (which folders of runs are
//!   deleted);
//! * `dry_run` (simulates the decision), `workflow` (the state as operators see it), `jitter` (varies delays).

pub mod agent_causes;
mod chosen_operation;
pub mod commands_context;
pub mod debug_session;
pub mod decision;
pub mod dispatch;
pub mod dry_run;
pub mod environment;
pub mod hook_context;
pub mod hook_context_builder;
pub mod hook_log;
pub mod hook_relation;
mod jitter;
pub mod leader_settings;
pub mod local;
pub mod logging_config;
pub mod middle_cut;
pub mod networks;
pub mod omitted_bags;
pub mod outcome;
pub mod parent_memory;
pub mod pending_operations;
pub mod pending_relation_hook;
pub mod pending_reports;
mod pending_secret_hook;
mod pending_storage_hook;
pub mod record;
pub mod relation_view;
pub mod required_files;
pub mod resolve;
pub mod retry;
pub mod run_exit;
pub mod run_retention;
mod secret_buffer;
pub mod secret_mask;
pub mod secrets;
pub mod snapshot;
pub mod storage;
mod wait_causes;
pub mod warm_dispatch;
pub mod workflow;
mod write_buffer;
pub mod writes;
