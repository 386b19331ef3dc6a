//! What is done at the centre: the handlers of the API over the store port, and the server in front of them.
//!
//! Reading order: `session` (who calls, and how a transition is run for it), `handlers` (one file per noun), `watches`;
//! then what they use: `authority`, `leases`, `presence`, `status`, `why` (with `owed` and `written`), `log`, `janitor` (with `waits`), `tokens`. All of these run without a
//! runtime, so that the simulator drives them (design 14). `host`, `installation`, `server` and `dispatch` are the real thing.

pub mod authority;
pub mod dispatch;
pub mod handlers;
pub mod hook_lock;
pub mod host;
pub mod installation;
pub mod janitor;
pub mod leases;
pub mod log;
mod named;
pub mod openapi;
pub mod outside;
mod owed;
pub mod presence;
pub mod server;
pub mod session;
pub mod status;
pub mod store;
pub mod tokens;
mod waits;
pub mod watches;
pub mod why;
mod written;

pub use handlers::unit_agent::REFUSED_ENTRY_MS;
pub use outside::Outside;
pub use session::{Controller, Session};
