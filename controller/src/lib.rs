//! The controller: the handlers of the API on top of the store port, and the HTTPS server in front of them.
//!
//! Reading order: `callers` (the authenticated caller, and how its transitions run), `handlers` (one file per noun),
//! `watches` (with `watch_progress`); then the modules they use: `environment`, `authorisation`, `leases` (with `recent_claims`), `presence` (with `shared_presence`), `status`, `why` (with
//! `commit_times`), `lookup`, `debug_log`, `janitor` (with `force_timers`, `debug_log_growth` and `archive_retention`),
//! `tokens`; and `openapi`. All of these run without an async runtime, so that the simulator can drive them (design 14). Only
//! `program`, `host_environment`, `check`, `installation` (with `certificates` and `required_file`), `secret_keys`, `secret_key_rotation`,
//! `server`, `request_dispatch`, `etcd_arguments`, `etcd_certificates`, `migrate`, `further_controller`, `store::sqlite`, `store::etcd` and `store::unavailable` depend on the real
//! host, and `archive_file`, `shared_files` and `disk_threads`, which they use.

mod archive_file;
mod archive_retention;
pub mod authorisation;
pub mod callers;
mod certificates;
pub mod check;
mod commit_times;
pub mod debug_log;
mod debug_log_growth;
mod disk_threads;
pub mod environment;
#[cfg(feature = "etcd")]
mod etcd_arguments;
#[cfg(feature = "etcd")]
mod etcd_certificates;
mod force_timers;
mod full_connections;
#[cfg(feature = "etcd")]
pub mod further_controller;
pub mod handlers;
pub mod host_environment;
pub mod installation;
pub mod janitor;
pub mod leases;
mod lookup;
#[cfg(feature = "etcd")]
pub mod migrate;
pub mod openapi;
pub mod presence;
pub mod program;
mod recent_claims;
pub mod request_dispatch;
pub mod required_file;
mod secret_key_rotation;
pub mod secret_keys;
mod secret_plaintext;
pub mod server;
mod shared_files;
mod shared_presence;
pub mod status;
pub mod store;
pub mod tokens;
mod urgent_models;
mod watch_progress;
pub mod watches;
pub mod why;

pub use archive_file::ArchiveFile;
pub use callers::{AuthenticatedCaller, Controller};
pub use disk_threads::DiskThreads;
pub use environment::Environment;
pub use handlers::unit_agent::REFUSED_ENTRY_DELAY_MS;
