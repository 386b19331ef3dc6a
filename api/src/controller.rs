//! Requests about the controller itself.

use serde::{Deserialize, Serialize};
use state::names::Uuid;

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Pintle's own version.
    pub version: String,
    /// What charms and clients are told: [`crate::JUJU_VERSION`].
    pub juju_version: String,
    pub controller: Uuid,
    pub history: Uuid,
}
