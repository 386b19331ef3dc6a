//! Whether the file system of a folder is full for this user.
//!
//! This module changes nothing. A program that ended on a full disk often could not write the reason to its log, so
//! what started it looks at the disk itself.

use nix::sys::statvfs::statvfs;
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
    let free = if nix::unistd::geteuid().is_root() { found.blocks_free() } else { found.blocks_available() };
    if free.saturating_mul(found.fragment_size()) < FREE_BYTES_MIN {
        return Some(FullDisk::Space);
    }
    // a file system that creates inodes on demand reports a total of 0
    (found.files() > 0 && found.files_available() == 0).then_some(FullDisk::Files)
}
