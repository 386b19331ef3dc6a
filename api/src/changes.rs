//! The response to writes, and the long poll for the next change of the store.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::position::Position;
use state::terms::storage::StorageId;

requests! { ChangeRequests {
    WaitForChange = post "/v1/models/{model}/changes", Reader => Position;
} }

/// Waits until the store has changed after `after`, at most [`LONG_POLL_MS`], and returns its position. Returns
/// immediately if `after` is none or of another store generation. The position is that of the whole store; the
/// model only determines who may send the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForChange {
    /// The last position that the caller has seen.
    #[serde(default)]
    pub after: Option<Position>,
}

/// The longest time for which a `changes` request or a waiting `debug-log` request is held before it is
/// answered without a change.
pub const LONG_POLL_MS: u64 = 25_000;

/// The response to a write. A write that had been applied before gives the same response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteResponse {
    /// The revision of the store that contains the change.
    pub revision: u64,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WriteWarning>,
}

/// What a write has accepted although it may be a mistake. Its English is in [`crate::text::warning`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteWarning {
    /// The model setting is stored, and nothing reads it.
    UnknownModelSetting {
        /// The name of the setting.
        name: String,
    },
    /// The unit is removed, and this storage stays on its machine, with its content.
    StorageKept {
        /// The storage.
        storage: Vec<StorageId>,
        /// The machine.
        machine: String,
    },
    /// The model has the ssh key already.
    DuplicateSshKey {
        /// The fingerprint of the key.
        fingerprint: String,
    },
}
