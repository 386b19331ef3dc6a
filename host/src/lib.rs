//! What the programs of Pintle share about the host they run on: processes and what they inherit, files, locks,
//! digests, randomness, back-off, logs and the words of a shell.
//!
//! Each of these has one implementation, which is here. The crate does not depend on Pintle's concepts (models,
//! units, the protocol). It has no async code, and it returns errors without interpreting them: callers decide
//! what an error means.
//!
//! Used by `charms`, `agent`, `controller` and `cli`. `state` and `commands` must not use it, because they do
//! no I/O.

pub mod backoff;
pub mod digest;
pub mod file;
pub mod inherited;
pub mod lock;
pub mod log_file;
pub mod logging;
pub mod process;
pub mod random;
pub mod restart;
pub mod shell;
