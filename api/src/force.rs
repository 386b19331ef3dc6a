//! How long a removal waits for agents: what all removals have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a removal waits for the agents before the controller acts in their place (spec E.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Force {
    /// Without a limit.
    #[default]
    No,
    /// One minute: `--force`.
    AfterWait,
    /// Not at all: `--force --no-wait`.
    AtOnce,
}

impl Force {
    /// The mode that the two flags select. `no_wait` has no effect without `force`.
    pub fn of(force: bool, no_wait: bool) -> Force {
        match (force, no_wait) {
            (false, _) => Force::No,
            (true, false) => Force::AfterWait,
            (true, true) => Force::AtOnce,
        }
    }
}
