//! The contract between the programs: one file per noun with its requests and answers, the port through which requests
//! go (`request`), the one list of all of them (`list`), errors, and the HTTP client.
//!
//! The controller's sessions implement the same port as the client, so the simulator connects agents directly to the
//! handlers (design 10). The caller's identity comes from the session, never from a body. Times are milliseconds since
//! the epoch, in UTC.

pub mod about;
pub mod actions;
pub mod applications;
pub mod archives;
pub mod changes;
pub mod client;
pub mod client_file;
pub mod error;
pub mod list;
pub mod log;
pub mod machine_agent;
pub mod machines;
pub mod models;
pub mod provisioning;
pub mod relations;
pub mod removal;
pub mod request;
pub mod schema;
pub mod status;
pub mod text;
pub mod unit_agent;
pub mod units;
pub mod why;

pub use about::*;
pub use actions::*;
pub use applications::*;
pub use archives::*;
pub use changes::*;
pub use client_file::*;
pub use list::{ProvisionerPort, UserPort};
pub use log::*;
pub use machine_agent::*;
pub use machines::*;
pub use models::*;
pub use provisioning::*;
pub use relations::*;
pub use removal::*;
pub use request::{Handle, InModel, Request, Stream, Watch, WatchRequest};
pub use status::*;
pub use unit_agent::*;
pub use units::*;
pub use why::*;

/// Version of everything spoken here; a path prefix.
pub const API_VERSION: &str = "v1";
/// What `JUJU_VERSION` and `pintle version` say: switches on everything charms want of 3.6, nothing that 4 changed.
pub const JUJU_VERSION: &str = "3.6.14";

/// `45s`, `12m`, `3h`, `2d`: how long ago, for people.
pub fn ago(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Silence on a watch after which its reader gives it up. The controller sends a heartbeat every third of it.
pub const WATCH_SILENCE_MS: u64 = 15_000;
pub const HEARTBEAT_MS: u64 = WATCH_SILENCE_MS / 3;
