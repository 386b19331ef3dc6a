//! The English of the API: the only module that turns facts into sentences, for the commands and for
//! `pintle-agent why`.

/// How actions have ended, in English.
pub mod action;
/// What unit agents are doing, in English.
pub mod activity;
/// What a unit agent would do next, in English.
pub mod agent_act;
/// Causes and remedies in English.
pub mod cause;
mod count;
/// Folders that are no data folders, in English.
pub mod data_folder;
mod entity_command;
/// The states of entities in English.
pub mod entity_state;
/// The whole text of an error.
pub mod error;
/// Faults of unit agents, their ends and the settings that help, in English.
pub mod fault;
/// What writes lines of the debug log, in Juju's form.
pub mod log;
/// Refusals in English.
pub mod refusal;
/// Why operations are started, in English.
pub mod start_reason;
/// The messages of statuses in English.
pub mod status_message;
/// Warnings about writes in English.
pub mod warning;
