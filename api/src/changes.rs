//! Answers to writes, and waiting for the next one.

use serde::{Deserialize, Serialize};

/// Longest a `changes` or a waiting `debug_log` call is held before it answers without news.
pub const LONG_POLL_MS: u64 = 25_000;

/// A write that was done (or had been done before): where it stands in the history, and what is worth a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
