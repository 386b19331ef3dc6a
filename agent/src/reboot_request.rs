//! The request to reboot the machine, and the names of the files that a reboot uses.
//!
//! Hooks request a reboot through their unit agent, which writes the request into the machine's folder once, and again if the machine does not
//! reboot (`RequestTimes`); the machine agent executes it (`reboot`). The request contains the id of the current boot, so
//! that it is complete once another boot has started.

use host::file::{ignore_not_found, read_regular_text, write_atomic_unsynced};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The file with the id of the current boot of a machine whose reboots are simulated (`reboot`).
pub const BOOT_FILE: &str = "boot";
/// The file that requests a reboot; it contains the id of the boot that ends with it.
const REQUEST_FILE: &str = "reboot";
/// The largest file with the id of a boot, which has 73 bytes at most.
pub(crate) const BOOT_BYTES_MAX: u64 = 1 << 10;

/// The request is written again if the machine has not rebooted within this time: the file may have been deleted, or not
/// written.
const REQUEST_INTERVAL_MS: u64 = 30_000;

/// When a unit agent writes its request: once for each boot that must end, and again after [`REQUEST_INTERVAL_MS`].
/// While it waits for the reboot, the agent may decide many times that it must wait.
#[derive(Debug, Default)]
pub(crate) struct RequestTimes {
    /// The boot that must end, and when its end was last requested, in milliseconds since boot.
    last: Option<(String, u64)>,
}

/// What a unit agent does that waits for a reboot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestDue {
    /// Requests the reboot for the first time in this boot.
    First,
    /// Requests the reboot again.
    Again,
    /// Waits: the reboot was requested a short time ago.
    NotYet,
}

impl RequestTimes {
    /// Returns whether the request is due, and notes it as made if it is.
    pub(crate) fn request(&mut self, boot: &str, since_boot_ms: u64) -> RequestDue {
        let due = match self.next_ms(boot) {
            None => RequestDue::First,
            Some(next_ms) if since_boot_ms >= next_ms => RequestDue::Again,
            Some(_) => return RequestDue::NotYet,
        };
        self.last = Some((boot.to_owned(), since_boot_ms));
        due
    }

    /// When the request for this boot is due again; none if it was not made.
    pub(crate) fn next_ms(&self, boot: &str) -> Option<u64> {
        self.last.as_ref().filter(|(of, _)| of == boot).map(|(_, ms)| ms + REQUEST_INTERVAL_MS)
    }
}

/// Requests a reboot of the machine, whose current boot is `boot`. An existing request for this boot is kept, with its
/// time; one for another boot is replaced.
///
/// # Errors
/// If the request cannot be written.
pub fn request(machine: &Path, boot: &str) -> std::io::Result<()> {
    match requested_boot(machine) {
        Ok(Some(known)) if known == boot => Ok(()),
        _ => write_atomic_unsynced(&machine.join(REQUEST_FILE), boot.as_bytes()),
    }
}

/// When the reboot was requested, by the wall clock; none if none is requested.
pub fn requested_ms(machine: &Path) -> Option<i64> {
    let requested = fs::metadata(machine.join(REQUEST_FILE)).ok()?.modified().ok()?;
    let since = requested.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// The boot that is to end; none if no reboot is requested.
///
/// # Errors
/// If the request cannot be read.
pub(crate) fn requested_boot(machine: &Path) -> std::io::Result<Option<String>> {
    ignore_not_found(read_regular_text(&machine.join(REQUEST_FILE), BOOT_BYTES_MAX))
}

/// Removes a request that is complete.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(machine: &Path) -> std::io::Result<()> {
    fs::remove_file(machine.join(REQUEST_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reboot_is_requested_once_per_interval_however_often_the_agent_wakes_up() {
        let mut times = RequestTimes::default();
        assert_eq!(times.request("a", 1_000), RequestDue::First);
        for ms in [1_000, 1_001, 30_999] {
            assert_eq!(times.request("a", ms), RequestDue::NotYet);
            assert_eq!(times.next_ms("a"), Some(31_000));
        }
        assert_eq!(times.request("a", 31_000), RequestDue::Again);
        assert_eq!(times.request("a", 31_001), RequestDue::NotYet);
        assert_eq!(times.request("b", 100), RequestDue::First, "another boot must end");
    }
}
