//! What an entity waits for.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::cause::{Cause, Entity};
use state::terms::life::Life;

requests! { WhyRequests {
    GetWhy = post "/v1/models/{model}/why", Reader => Why;
} }

/// Everything that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetWhy {
    /// A unit, an application, a machine's name, a relation's number or its two ends with a space between; empty = the
    /// model.
    pub entity: String,
}

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
