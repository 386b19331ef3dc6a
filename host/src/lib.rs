//! What the programs share about the host they run on: processes, files, locks, digests, randomness, back-off, logs.
//!
//! Each of these has one implementation, and it is here. The crate knows nothing of Pintle: no model, no unit, no
//! protocol. It has no async; callers decide what an error means.
//!
//! Used by `charms`, `agent`, `controller` and `cli`; never by `state` and `commands`, which do no I/O.

pub mod backoff;
pub mod digest;
pub mod file;
pub mod lock;
pub mod logging;
pub mod process;
pub mod random;
