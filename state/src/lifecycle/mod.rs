//! The lifecycles of models, machines, applications, units and relations: added, destroyed, Dead, removed (spec E).
//!
//! Also the lifecycles of what belongs to these: actions, leadership, scopes and pending re-entries of units; settings,
//! constraints, resources and archives of applications; secrets, storage and ssh keys. `cleanup` deletes what a removal has
//! left, `creation` is what a transition needs to create entities, and `fake_application` acts for units without agents.
//!
//! Each public function is a transition over a [`Draft`](crate::documents::draft::Draft). The removal of one
//! entity can remove others in the same transaction, so the modules of applications, units and relations import
//! each other; no other modules of this crate do.

pub mod action;
pub mod application;
pub mod application_settings;
pub mod archive;
pub mod cleanup;
pub mod constraints;
pub mod creation;
pub mod fake_application;
pub mod leadership;
pub mod machine;
pub mod model;
pub mod pending_reentry;
pub mod relation;
pub mod resource;
pub mod scope;
pub(crate) mod secret;
pub mod secret_content;
pub mod ssh_keys;
pub mod storage;
mod storage_directives;
pub mod unit;
pub mod user_secret;
