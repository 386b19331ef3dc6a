//! Checks whether a unit agent may write, and which record it may write next.
//!
//! An attach grants a session ([`session`]); only the newest session of a unit may write. A record is refused unless
//! it is the next one (`replica`, stored without bags: `own_bags`) and contains only what a correct agent sends
//! (`record_validation` with `record_bounds`, and `teardown` for one that ends the unit). [`lease`] decides whether a unit leads. An agent that
//! has attached compares its disk with the replica ([`reconciliation`]). `secret_writes` applies its changes of secrets, and
//! `reported_time` bounds the times that it reports, and `secret_read` returns what a unit reads of them. Called by the transitions that apply what agents send: `transitions` and
//! `restore`.

mod json_measure;
pub mod lease;
pub(crate) mod own_bags;
pub mod reconciliation;
pub(crate) mod record_bounds;
pub mod record_validation;
pub(crate) mod replica;
pub mod reported_time;
pub mod secret_read;
pub(crate) mod secret_writes;
pub mod session;
pub(crate) mod teardown;
