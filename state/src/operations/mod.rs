//! Transitions that touch several entities, or that are no step of one entity's lifecycle: the commit of records,
//! instances, the destruction of models, removal by force and its dry run, retention. (What a unit does next, an
//! operation of its agent, is `terms::operation`.)
//!
//! Each public function is a transition over a [`Draft`](crate::documents::draft::Draft), called by one handler
//! of the controller or by its janitor.

pub mod destruction;
pub mod dry_run;
pub mod due_secrets;
pub mod force;
pub mod instance;
pub mod leader_settings;
pub mod log_retention;
pub mod record_commit;
pub mod run_reports;
pub mod tombstone_retention;
