//! The handlers on the in-memory store, called directly, without HTTP.

mod agent_records;
mod archives;
mod damage;
mod disk_usage;
mod janitor;
mod leadership;
mod log;
mod machines;
mod resources;
mod secret_keys;
mod shared_leadership;
mod shared_presence;
mod status;
mod status_cache;
#[path = "../support/mod.rs"]
mod support;
mod watches;
