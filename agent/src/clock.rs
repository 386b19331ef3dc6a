//! Real time and real chance.

use crate::ports::Clock;
use nix::time::{ClockId, clock_gettime};
use state::terms::names::Uuid;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The machine's clocks and entropy.
#[derive(Debug)]
pub struct HostClock {
    boot: String,
}

impl HostClock {
    /// `boot` identity: the kernel's boot id and the start time of process 1, so that a container that was
    /// restarted counts as rebooted; a file in the machine's folder may override it (juju-reboot of a local
    /// machine restarts the agents with a new one, design 16).
    pub fn new(override_file: &std::path::Path) -> HostClock {
        let given = std::fs::read_to_string(override_file).ok();
        HostClock { boot: given.map_or_else(kernel_boot, |text| text.trim().to_owned()) }
    }
}

/// The boot in which this process runs, whatever a local machine calls it: kernel's boot id and start of process 1.
pub fn kernel_boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let first = host::process::Process::of(1).map_or(0, |process| process.start);
    format!("{}-{first}", id.trim())
}

/// 128 random bits from the kernel.
pub fn fresh_uuid() -> Uuid {
    Uuid(host::random::bits())
}

/// Milliseconds since boot, while asleep too.
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every kernel has this clock");
    let (seconds, nanoseconds) = (now.tv_sec(), now.tv_nsec());
    u64::try_from(seconds).expect("time since boot is positive") * 1000
        + u64::try_from(nanoseconds).expect("time since boot is positive") / 1_000_000
}

/// Wall clock in milliseconds; 0 before 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Clock for HostClock {
    fn boot(&self) -> String {
        self.boot.clone()
    }
    fn since_boot_ms(&self) -> u64 {
        since_boot_ms()
    }
    fn wall_ms(&self) -> i64 {
        wall_ms()
    }
    async fn sleep_until(&self, until_ms: u64) {
        // a millisecond more: the timer may fire within the one it is due in
        let left = until_ms.saturating_sub(since_boot_ms()) + 1;
        tokio::time::sleep(Duration::from_millis(left)).await;
    }
    fn fresh(&self) -> Uuid {
        fresh_uuid()
    }
}
