//! The clocks and the randomness of the host: the implementation of `ports::Clock` for real agents.
//!
//! Time since boot decides when an agent acts. The wall clock is shown to people; the only decision that reads it is
//! whether a leader's lease is still valid (`state::agents::lease`), which ends when the two clocks diverge.

use crate::ports::Clock;
use crate::reboot_request::BOOT_BYTES_MAX;
use nix::time::{ClockId, clock_gettime};
use state::terms::names::Uuid;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The host's clocks and randomness.
#[derive(Debug)]
pub struct HostClock {
    boot_id: String,
    override_file: PathBuf,
}

impl HostClock {
    /// Reads the identity of this boot. It consists of the kernel's boot id and the start time of process 1, so
    /// that a restarted container counts as rebooted. The file `override_file` in the machine's folder
    /// overrides it: `juju-reboot` of a local machine restarts the agents with a new identity (design 16).
    pub fn new(override_file: &Path) -> HostClock {
        HostClock { boot_id: boot_id(override_file), override_file: override_file.to_owned() }
    }
}

fn boot_id(override_file: &Path) -> String {
    let stored = host::file::read_regular_text(override_file, BOOT_BYTES_MAX).ok();
    stored.map_or_else(kernel_boot_id, |text| text.trim().to_owned())
}

/// The id of the current boot: the kernel's boot id and the start time of process 1, without the override of a
/// local machine. It is read once, because no process outlives its boot.
pub fn kernel_boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let first = host::process::Process::find(1).map_or(0, |process| process.start);
        format!("{}-{first}", id.trim())
    };
    BOOT.get_or_init(read).clone()
}

/// 128 random bits from the kernel.
pub fn random_uuid() -> Uuid {
    Uuid(host::random::random_u128())
}

/// Milliseconds since boot, including the time that the host was suspended.
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every kernel has this clock");
    let (seconds, nanoseconds) = (now.tv_sec(), now.tv_nsec());
    u64::try_from(seconds).expect("time since boot is positive") * 1000
        + u64::try_from(nanoseconds).expect("time since boot is positive") / 1_000_000
}

/// The wall clock in milliseconds since 1970; 0 if it is set to an earlier time.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Clock for HostClock {
    fn boot(&self) -> String {
        self.boot_id.clone()
    }
    fn machine_boot(&self) -> String {
        boot_id(&self.override_file)
    }
    fn since_boot_ms(&self) -> u64 {
        since_boot_ms()
    }
    fn wall_ms(&self) -> i64 {
        wall_ms()
    }
    async fn sleep_until(&self, until_ms: u64) {
        // one millisecond more, because the timer may fire within the millisecond before
        let remaining_ms = until_ms.saturating_sub(since_boot_ms()) + 1;
        tokio::time::sleep(Duration::from_millis(remaining_ms)).await;
    }
    fn random_uuid(&self) -> Uuid {
        random_uuid()
    }
}
