//! The request to reboot the machine, and the names of the files that a reboot uses.
//!
//! Hooks request a reboot through their unit agent, which writes the request here; the machine agent executes it
//! (`reboot`). The request contains the id of the current boot, so that it is complete once another boot has
//! started.

use host::file::{ignore_not_found, write_atomic_unsynced};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The file with the boot identity of a local machine that was rebooted.
pub const BOOT_FILE: &str = "boot";
/// The file that requests a reboot; it contains the id of the boot that ends with it.
const REQUEST_FILE: &str = "reboot";
/// The hook lock in the folder of a machine or of a unit: it is held while a hook runs.
pub const HOOK_LOCK: &str = "hook.lock";

/// Requests a reboot of the machine, whose current boot is `boot`. An existing request is kept, with its time.
///
/// # Errors
/// If the request cannot be written.
pub fn request(machine: &Path, boot: &str) -> std::io::Result<()> {
    match fs::read(machine.join(REQUEST_FILE)) {
        Ok(known) if known == boot.as_bytes() => Ok(()),
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
    ignore_not_found(fs::read_to_string(machine.join(REQUEST_FILE)))
}

/// Removes a request that is complete.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(machine: &Path) -> std::io::Result<()> {
    fs::remove_file(machine.join(REQUEST_FILE))
}
