//! Force: how long a removal waits for agents before the controller acts in their place (spec E.6).
//!
//! Requests, causes and documents use the same types.

use serde::{Deserialize, Serialize};

/// How long a removal waits for the agents before the controller acts in their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What started a forced removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ForcedBy {
    /// A removal with `--force`, of the entity or of an entity that contains it.
    Operator,
    /// The model's `teardown-budget`.
    Budget,
}

/// The phase of a forced removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ForcePhase {
    /// The agents may still act.
    Waiting {
        /// Milliseconds until the controller acts in their place.
        left_ms: i64,
    },
    /// The controller acts in place of the agents.
    Acting,
}
