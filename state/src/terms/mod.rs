//! The vocabulary of the project: names, positions, versions, owners, lives and statuses; what an agent does
//! (`operation`, `activity`), why (`start_reason`) and with what result (`outcome`, `failure_reason`); why an entity
//! waits (`cause`) and why a request is refused (`refusal`).
//!
//! Everything here is a value; a rule is here if it needs nothing but the value, such as the remedy of a cause. All modules
//! of this crate except `charm`, and all crates that depend on it, use these types.

pub mod activity;
pub mod assignment;
pub mod cause;
pub mod commands;
pub mod constraints;
pub mod disk_usage;
pub mod duration;
pub mod failure_reason;
pub mod force;
pub mod hardware;
pub mod health;
pub mod hook_name;
pub mod leader_settings;
pub mod life;
pub mod log_module;
pub mod member_version;
pub mod names;
pub mod operation;
pub mod outcome;
pub mod owner;
pub mod pairs;
pub mod port_range;
pub mod position;
pub mod process_result;
pub mod provider_kind;
pub mod proxy;
pub mod refusal;
pub mod required_file;
pub mod resource;
pub mod run_lock;
pub mod secret;
pub mod settings;
pub mod ssh_key;
pub mod start_reason;
pub mod status;
pub mod status_info;
pub mod status_message;
pub mod storage;
pub mod store_engine;
pub mod string_enum;
pub mod unit_documents;
pub mod write_failure;
