//! Charm archives.

use serde::{Deserialize, Serialize};
use state::charm::Charm;

/// Largest charm archive.
pub const ARCHIVE_BYTES_MAX: usize = 512 << 20;

/// A charm archive the controller holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uploaded {
    pub sha256: String,
    pub bytes: u64,
    pub charm: Charm,
}
