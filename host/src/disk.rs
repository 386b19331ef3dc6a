//! Whether the file system of a folder is full for this user.
//!
//! This module leaves nothing behind. A program that ended on a full disk often could not write the reason to its log, so
//! what started it looks at the disk itself.

use crate::file::is_disk_full;
use nix::fcntl::{OFlag, posix_fallocate};
use nix::sys::statvfs::statvfs;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A disk with less free space counts as full. An outcome, a record and the pid files of a hook need less.
const FREE_BYTES_MIN: u64 = 64 << 10;

/// What a full file system lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullDisk {
    /// Space.
    Space,
    /// Inodes.
    Files,
}

/// What the file system of a folder lacks for this user; none if it has room, or cannot be examined.
pub fn full(folder: &Path) -> Option<FullDisk> {
    let found = statvfs(folder).ok()?;
    let has_room = |blocks: u64| blocks.saturating_mul(found.fragment_size()) >= FREE_BYTES_MIN;
    // a file system that creates inodes on demand reports a total of 0
    let lacks_files = (found.files() > 0 && found.files_available() == 0).then_some(FullDisk::Files);
    if has_room(found.blocks_available()) {
        return lacks_files;
    }
    // Root may use blocks that others may not, but none of those that ext4 keeps for itself: 2 % of a small disk, which it
    // counts as free.
    let is_for_root = nix::unistd::geteuid().is_root() && has_room(found.blocks_free());
    if is_for_root && !is_allocation_refused(folder) { lacks_files } else { Some(FullDisk::Space) }
}

/// Whether the file system has no room for a file without a name, which disappears when it is closed.
fn is_allocation_refused(folder: &Path) -> bool {
    let flags = OFlag::O_TMPFILE.bits();
    let file = OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(folder);
    let bytes = i64::try_from(FREE_BYTES_MIN).expect("64 KiB");
    let allocated = file.and_then(|file| posix_fallocate(&file, 0, bytes).map_err(io::Error::from));
    allocated.is_err_and(|error| is_disk_full(&error))
}
