//! Operations on entities beside their lifecycles: agent sessions and records, actions, leadership, instances,
//! the destruction of models, removal by force and its dry run.
//!
//! Each public function is a transition over a [`Draft`](crate::documents::draft::Draft), called by one handler
//! of the controller or by its janitor.

pub mod action;
pub mod destruction;
pub mod dry_run;
pub mod due_secrets;
pub mod force;
pub mod instance;
pub mod leader_settings;
pub mod leadership;
pub mod log_retention;
pub mod record_commit;
pub(crate) mod record_validation;
pub(crate) mod replica;
pub mod run_reports;
pub mod secret;
pub mod session;
pub mod tombstone_retention;
