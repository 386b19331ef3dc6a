//! Resets what a program that holds tokens inherits from the process that started it: closes descriptors and forbids core
//! files (security S44). A limit of the size of files stays, and must not kill the program.
//!
//! The shim (`pintle-hook`) resets what a hook must not inherit.
//!
//! Called at the start of the supervisor, the controller and the agents, before they open a file.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use std::fs;

/// Closes all descriptors above standard error. Must be called before the program opens a file.
fn close_descriptors() {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    // collected first, because the folder that is read is one of them
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // the folder is closed already
        nix::unistd::close(descriptor).ok();
    }
}

/// Blocks the signal with which a write beyond `ulimit -f` kills the process: the write then fails with EFBIG, and is
/// handled as on a full disk. Threads and programs that are started later inherit this; the shim resets the mask of a hook.
fn block_file_size_signal() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.thread_block().ok();
}

/// Prepares a program that holds tokens: closes inherited descriptors, and forbids core dumps and reading its memory
/// by other processes of its user. Must be called before the program starts a thread.
pub fn protect() {
    close_descriptors();
    block_file_size_signal();
    // the hard limit stays, because hooks inherit it
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
        setrlimit(Resource::RLIMIT_CORE, 0, hard).ok();
    }
    // also for dumps that the kernel pipes to a program, to which the limit does not apply
    set_dumpable(false).ok();
}
