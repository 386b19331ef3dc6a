//! What a program inherits from the process that started it, and must not keep: descriptors, limits, the file mode
//! mask (security S44, S45).
//!
//! A hook sees the same process however Pintle was started: an interactive shell with open files and limits of its own,
//! systemd, or a supervisor. Signals are reset where a hook is started, because only the new process can do it.
//!
//! Called at the start of the supervisor, the controller, the agents and the shim, before they open a file.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::stat::{Mode, umask};
use std::fs;

/// The soft limit of open files of a hook, or the hard limit if that is lower. It is the limit of jujud's service.
const OPEN_FILES_MAX: rlim_t = 64_000;
/// The soft limit of a hook's stack: the default of the kernel. A larger one changes the layout of its memory.
const STACK_BYTES_MAX: rlim_t = 8 << 20;

/// The soft limits of a hook, or the hard limits where these are lower. A shell may have lowered any of them; the hard
/// limits belong to the administrator. Core files are not written, because a hook may hold secrets.
const HOOK_LIMITS: [(Resource, rlim_t); 16] = [
    (Resource::RLIMIT_CORE, 0),
    (Resource::RLIMIT_NOFILE, OPEN_FILES_MAX),
    (Resource::RLIMIT_STACK, STACK_BYTES_MAX),
    (Resource::RLIMIT_AS, RLIM_INFINITY),
    (Resource::RLIMIT_CPU, RLIM_INFINITY),
    (Resource::RLIMIT_DATA, RLIM_INFINITY),
    (Resource::RLIMIT_FSIZE, RLIM_INFINITY),
    (Resource::RLIMIT_LOCKS, RLIM_INFINITY),
    (Resource::RLIMIT_MEMLOCK, RLIM_INFINITY),
    (Resource::RLIMIT_MSGQUEUE, RLIM_INFINITY),
    (Resource::RLIMIT_NICE, RLIM_INFINITY),
    (Resource::RLIMIT_NPROC, RLIM_INFINITY),
    (Resource::RLIMIT_RSS, RLIM_INFINITY),
    (Resource::RLIMIT_RTPRIO, RLIM_INFINITY),
    (Resource::RLIMIT_RTTIME, RLIM_INFINITY),
    (Resource::RLIMIT_SIGPENDING, RLIM_INFINITY),
];

/// Closes all descriptors above standard error. Must be called before the program opens a file.
pub fn close_descriptors() {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    // collected first, because the folder that is read is one of them
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // the folder is closed already
        nix::unistd::close(descriptor).ok();
    }
}

/// Prepares a program that holds tokens: closes inherited descriptors, and forbids core dumps and reading its memory
/// by other processes of its user.
pub fn protect() {
    close_descriptors();
    // the hard limit stays, because hooks inherit it
    limit(Resource::RLIMIT_CORE, 0);
    // also for dumps that the kernel pipes to a program, to which the limit does not apply
    set_dumpable(false).ok();
}

/// Prepares the process that becomes the parent of a hook, which inherits all of this.
pub fn reset_for_hook() {
    close_descriptors();
    umask(Mode::from_bits_truncate(0o022));
    for (resource, soft_max) in HOOK_LIMITS {
        limit(resource, soft_max);
    }
}

/// Sets a soft limit, at most the hard one. A limit that cannot be set stays as it is: it is no reason not to start.
fn limit(resource: Resource, soft_max: rlim_t) {
    let Ok((soft, hard)) = getrlimit(resource) else { return };
    let wanted = soft_max.min(hard);
    if soft != wanted {
        setrlimit(resource, wanted, hard).ok();
    }
}
