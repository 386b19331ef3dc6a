//! Checks whether a unit agent may write, and which record it may write next.
//!
//! An attach grants a session ([`session`]); only the newest session of a unit may write. A record is refused unless
//! it is the next one (`replica`, stored without bags: `own_bags`) and contains only what a correct agent sends
//! (`record_validation` with `record_bounds`, and `teardown` for one that ends the unit); `reported_time` bounds its times,
//! and `secret_writes` applies its changes of secrets. `secret_read` returns what a unit reads of secrets. [`lease`] decides
//! whether a unit leads, and [`reconciliation`] compares the disk of an agent with the replica when it attaches: the agent
//! calls these two. The others are called by the transitions that apply what agents send (`transitions` and `restore`), and
//! by the handlers of agents.

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
