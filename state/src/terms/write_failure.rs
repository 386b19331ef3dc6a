//! Why the store of the controller accepts no changes at the moment.

use serde::{Deserialize, Serialize};

/// Why the last change was not written. It ends with the next one that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WriteFailure {
    /// The disk of the controller is full, or a quota or the limit of a file's size is reached.
    DiskFull,
    /// The controller cannot open a file of the store: the reason.
    CannotOpen(String),
    /// The store is on other hosts and cannot be used: the reason.
    Outage(String),
}
