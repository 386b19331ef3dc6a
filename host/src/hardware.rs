//! The hardware of this host, as Juju shows that of a machine.

use std::thread::available_parallelism;

/// The architecture for which this program was built, which is that of this host, by its name in Juju and Debian:
/// `amd64`.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    }
}

/// The number of processors that this process may use; 1 if the system does not know it.
pub fn processors() -> u64 {
    available_parallelism().map_or(1, |count| count.get() as u64)
}

/// The memory of this host in MiB; 0 if the system does not know it.
pub fn memory_mib() -> u64 {
    nix::sys::sysinfo::sysinfo().map_or(0, |info| info.ram_total() / (1 << 20))
}
