//! What is done at the centre: the handlers of the API over the store port, and the server in front of them.
//!
//! Reading order: `session` (who calls, and how a transition is run for it), the three `*_handlers`, `watches`;
//! then what they use: `authority`, `leases`, `presence`, `status`, `why` (with
//! `pending_since` and `commit_times`), `log`, `janitor` (with `force_timers`), `tokens`. All of these run without a runtime, so that the simulator drives them (design 14). `host`, `installation`, `server` and `dispatch` are the real thing.

pub mod authority;
mod commit_times;
pub mod dispatch;
mod force_timers;
pub mod hook_lock;
pub mod host;
pub mod installation;
pub mod janitor;
pub mod leases;
pub mod log;
mod machine_handlers;
pub mod openapi;
mod operator_handlers;
pub mod outside;
mod pending_since;
pub mod presence;
pub mod server;
pub mod session;
pub mod status;
pub mod store;
pub mod tokens;
mod unit_handlers;
pub mod watches;
pub mod why;

pub use outside::Outside;
pub use session::{Controller, Session};
pub use unit_handlers::REFUSED_ENTRY_MS;
