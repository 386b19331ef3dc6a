//! The disk space that a unit uses on its machine, as measured by the machine agent.

use serde::{Deserialize, Serialize};

/// The bytes of a unit's folder on its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitDiskUsage {
    /// The folders of its runs.
    pub runs_bytes: u64,
    /// The folder of its charm, including the files that the charm has written there.
    pub charm_bytes: u64,
    /// The logs of its agent.
    pub logs_bytes: u64,
    /// Everything else: its state, the copy of its view, and damaged files that were set aside.
    pub state_bytes: u64,
}

impl UnitDiskUsage {
    /// The sum of all parts.
    pub fn total_bytes(&self) -> u64 {
        let UnitDiskUsage { runs_bytes, charm_bytes, logs_bytes, state_bytes } = self;
        [runs_bytes, charm_bytes, logs_bytes, state_bytes]
            .into_iter()
            .fold(0, |sum, part| sum.saturating_add(*part))
    }
}
