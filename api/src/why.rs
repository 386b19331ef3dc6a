//! The request that explains what an entity waits for (`pintle why`).

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::cause::{Cause, Entity};
use state::terms::life::Life;

requests! { WhyRequests {
    GetWhy = post "/v1/models/{model}/why", Reader => Why;
} }

/// Returns everything that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetWhy {
    /// A unit, an application, the name of a machine, the number of a relation, or the two ends of a relation
    /// with a space between; empty for the model.
    pub entity: String,
}

/// Everything that an entity waits for, computed on request (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The entity.
    pub entity: Entity,
    /// Its effective life.
    pub life: Life,
    /// What it is doing: `idle`, `running config-changed hook`.
    pub now: String,
    /// What it waits for; empty if nothing.
    pub causes: Vec<Cause>,
    /// Whether there are more causes.
    #[serde(default)]
    pub more: bool,
}
