//! The request that explains what an entity waits for (`pintle why`).

use crate::entity_choice::EntityChoice;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use state::why::explanation::{EntityState, HookLock, Why};

requests! { WhyRequests {
    GetWhy = post "/v1/models/{model}/why", Reader => Why;
} }

/// Returns everything that an entity waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWhy {
    /// The entity.
    pub entity: EntityChoice,
}
