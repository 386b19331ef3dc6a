//! Requests of `pintle dev`, for models in which charms are developed: what fake applications publish, and the clock of the
//! model.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::position::Committed;

pub use state::lifecycle::fake_application::SetFakeSettings;

requests! { DevelopmentRequests {
    SetFakeSettings = post "/v1/models/{model}/set-fake-settings", Admin => WriteResponse;
    AdvanceClock = post "/v1/models/{model}/advance-clock", Admin => Committed<AdvancedClock>;
} }

/// Advances the clock of a model: update-status, the retries of failed hooks, and the rotations and expiries of secrets
/// become due as if this time had passed. Refused for a model in which no charms are developed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdvanceClock {
    /// By how much, in milliseconds.
    pub by_ms: u64,
}

/// The clock of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvancedClock {
    /// How far it is advanced altogether, in milliseconds.
    pub advanced_ms: u64,
}
