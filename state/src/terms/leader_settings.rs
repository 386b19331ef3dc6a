//! The settings that the leader of an application stores, as the units of the application see them.

use crate::terms::settings::Bag;
use serde::{Deserialize, Serialize};

/// The most bytes of an application's leader settings, as JSON: 256 KiB, enough for a hundred certificates. They are
/// inlined in the view of each unit of the application.
pub const LEADER_SETTINGS_BYTES_MAX: usize = 256 << 10;

/// The leader settings of an application in the view of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderSettingsView {
    /// Increases with every change of the values; 0 if no leader has stored any.
    pub version: u64,
    /// The values.
    pub values: Bag,
}
