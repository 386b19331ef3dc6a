//! The access to the host that the programs of Pintle share: its hardware, processes and what they inherit, files,
//! full disks, mounts, locks, digests, randomness, back-off, restarts, logs, escaping and the quoting of shell commands.
//!
//! Each of these has one implementation for the programs that link this crate, which is here. `pintle-hook` depends on
//! no crate: `hooks-tools/client` has its own form of what it needs, and the pid files of its shim are read here. The crate does not depend on Pintle's concepts (models,
//! units, the protocol). It has no async code except `program`, whose callers are loops with other duties. It returns
//! errors without interpreting them: callers decide what an error means.
//!
//! Used by `charms`, `agent`, `controller` and `cli`. `state` and `commands` must not use it, because they do
//! no I/O.

pub mod backoff;
pub mod digest;
pub mod disk;
pub mod escape;
pub mod file;
pub mod foreign_files;
pub mod hardware;
pub mod inherited;
pub mod lock;
pub mod log_file;
pub mod log_tail;
pub mod logging;
pub mod mounts;
pub mod open_folder;
pub mod process;
pub mod process_tree;
pub mod program;
pub mod random;
pub mod restart;
pub mod shell;
pub mod tree;
