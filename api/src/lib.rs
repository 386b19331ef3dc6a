//! The contract between the programs of Pintle.
//!
//! There is one file per noun with its requests and responses, the port through which requests are sent
//! (`request`), the list of all requests (`all_requests`), errors and the English of all messages (`text`), the names in
//! a data folder and in the folder of a machine (`data_folder`, `machine_folder`), and the HTTPS client. The crate contains no decisions.
//!
//! The authenticated callers of the controller implement the same port as the client, so that the simulator connects
//! agents directly to the handlers (design 10). The identity of the caller is never part of a request. Times are
//! milliseconds since the Unix epoch, in UTC.

#![warn(missing_docs)]

pub mod actions;
pub mod agent_config;
pub mod all_requests;
pub mod applications;
pub mod archives;
pub mod changes;
pub mod client;
pub mod client_file;
mod connection_pool;
pub mod constraints;
pub mod controller_info;
pub mod data_folder;
pub mod development;
pub mod disk_usage;
pub mod dry_run;
pub mod entity_choice;
pub mod error;
pub mod etcd_file;
pub mod log;
pub mod machine_agent;
pub mod machine_folder;
pub mod machines;
pub mod models;
pub mod provisioning;
pub mod relations;
pub mod request;
pub mod resources;
pub mod secrets;
pub mod shared;
pub mod ssh_keys;
pub mod status;
pub mod storage;
pub mod text;
pub mod unit_agent;
pub mod units;
pub mod why;

pub use actions::*;
pub use agent_config::*;
pub use all_requests::{ProvisionerPort, UserPort};
pub use applications::*;
pub use archives::*;
pub use changes::*;
pub use client_file::*;
pub use constraints::*;
pub use controller_info::*;
pub use development::*;
pub use disk_usage::*;
pub use dry_run::*;
pub use entity_choice::{EntityChoice, UnitChoice};
pub use log::*;
pub use machine_agent::*;
pub use machines::*;
pub use models::*;
pub use provisioning::*;
pub use relations::*;
pub use request::{Handle, InModel, Request, Stream, Watch, WatchRequest};
pub use resources::*;
pub use secrets::*;
pub use shared::Shared;
pub use ssh_keys::*;
pub use state::charm::JUJU_VERSION;
pub use state::terms::force::Force;
pub use status::*;
pub use storage::*;
pub use unit_agent::*;
pub use units::*;
pub use why::*;

/// The version of all requests, which is the prefix of every path.
pub const API_VERSION: &str = "v1";

/// The length of a time span for people: `45s`, `12m`, `3h`, `2d`. A negative span is `0s`.
pub fn ago(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// A watch is closed by its reader if neither an event nor a response has confirmed the view for this long: a heartbeat
/// is 7 s late. With the time of a reconnect it is less than the age of a view on which relation hooks start.
pub const WATCH_SILENCE_MS: u64 = HEARTBEAT_MS + 7_000;
const _: () = assert!(
    WATCH_SILENCE_MS + 5_000 <= state::unit::decision::LINK_AGE_MAX_MS,
    "a reconnect takes up to 5 s"
);
/// A response to an agent that is silent for this long counts as lost. No request of an agent is a long poll.
pub const RESPONSE_SILENCE_MS: u64 = 15_000;
/// The minimum rate of a body on average, in bytes per second: a slow mobile link. The controller ends slower transfers,
/// and clients wait as long.
pub const TRANSFER_RATE_MIN: u64 = 64 << 10;
/// A watch sends a heartbeat if its view was not confirmed for this long. It is 3 s more than the interval of the requests
/// that confirm it ([`PRESENCE_INTERVAL_MS`]), so that an idle agent costs the controller one message in this time: a
/// heartbeat is due up to 1 s earlier, because those of many watches are due together, and a request is answered within 2 s.
pub const HEARTBEAT_MS: u64 = PRESENCE_INTERVAL_MS + 3_000;
/// The interval at which a machine agent examines its unit agents and repeats what could not be sent.
pub const EXAMINATION_INTERVAL_MS: u64 = 5_000;
/// The interval at which an idle agent sends a request, from which the controller infers its presence: a unit agent
/// sends a [`Claim`], a machine agent a [`ReportPresence`].
pub const PRESENCE_INTERVAL_MS: u64 = 15_000;
/// An agent that has sent no request for longer is shown as lost: four requests are missing.
pub const LOST_AFTER_MS: u64 = 4 * PRESENCE_INTERVAL_MS;
/// The longest time until a machine agent looks again at a folder that prevents the recall of a unit: the longest wait of
/// a person who has deleted the folder.
pub const OBSTRUCTED_RECALL_RETRY_MAX_MS: u64 = 600_000;
