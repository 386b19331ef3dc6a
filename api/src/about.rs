//! Requests about the controller itself.

use crate::request::requests;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::terms::names::Uuid;

requests! { AboutRequests {
    GetAbout = get "/v1/about", Reader => About;
    GetOpenApi = get "/v1/openapi.json", Reader => Value;
} }

/// What answers: versions, controller and store generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAbout;

/// The OpenAPI document of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetOpenApi;

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Pintle's own version.
    pub version: String,
    /// What charms and clients are told: [`crate::JUJU_VERSION`].
    pub juju_version: String,
    pub controller: Uuid,
    pub store_generation: Uuid,
}
