//! What an entity waits for.

use serde::{Deserialize, Serialize};
use state::cause::{Cause, Entity};
use state::life::Life;

/// Everything that an entity waits for; empty = nothing. Computed when it is asked for (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    pub entity: Entity,
    pub life: Life,
    /// What it does now, in words: `idle`, `running config-changed hook`.
    pub now: String,
    pub causes: Vec<Cause>,
    /// There are more causes than these.
    #[serde(default)]
    pub more: bool,
}
