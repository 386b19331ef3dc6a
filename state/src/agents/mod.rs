//! What the agent of a unit presents with each request: its session, and its next record.
//!
//! An attach grants a session ([`session`]), and only the newest one may write. A record is the next one or it is
//! refused (`replica`), and it contains only what a correct agent sends (`record_validation`). Called by the
//! transitions that apply what agents send: `operations` and `restore`.

pub(crate) mod record_validation;
pub(crate) mod replica;
pub mod session;
