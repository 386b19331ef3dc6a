//! Transitions that change several entities, or that are not part of the lifecycle of one entity: the commit of
//! records, requests of machine agents, instances, the destruction of models, removal by force and its dry run,
//! retention.
//!
//! Most public functions are transitions over a [`Draft`](crate::documents::draft::Draft), called by one handler of the
//! controller or by its janitor; dry runs and the selection for retention only read.

pub mod assigned_units;
pub mod attach_resources;
pub mod destruction;
pub mod dry_run;
pub mod due_secrets;
pub mod force;
pub mod force_timer;
pub mod instance;
pub mod leader_claim;
pub mod leader_settings;
pub mod log_retention;
pub mod machine_status_log;
pub mod record_commit;
pub mod requested_removal;
pub mod retention_scan;
pub mod run_reports;
pub mod secret_resealing;
pub mod tombstone_retention;
