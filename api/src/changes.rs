//! Answers to writes, and waiting for the next one.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::position::Position;

requests! { ChangeRequests {
    WaitForChange = post "/v1/models/{model}/changes", Reader => Position;
} }

/// Waits until the store has gone past `after`, or [`LONG_POLL_MS`], and answers the position it is at.
/// Answers at once when `after` is none or of another history. The position is the store's: the model only decides
/// who may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitForChange {
    #[serde(default)]
    pub after: Option<Position>,
}

/// Longest a `changes` or a waiting `debug_log` call is held before it answers without news.
pub const LONG_POLL_MS: u64 = 25_000;

/// A write that was done (or had been done before): where it stands in the history, and what is worth a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
