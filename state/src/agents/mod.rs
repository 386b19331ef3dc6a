//! What the agent of a unit presents with each request: its session, and its next record.
//!
//! An attach grants a session ([`session`]), and only the newest one may write. A record is the next one or it is
//! refused (`replica`), and it contains only what a correct agent sends (`record_validation`). What it changes of
//! secrets is applied here (`secret_writes`), and what a unit reads of them (`secret_read`). Called by the transitions
//! that apply what agents send: `operations` and `restore`.

pub(crate) mod record_validation;
pub(crate) mod replica;
pub mod secret_read;
pub(crate) mod secret_writes;
pub mod session;
