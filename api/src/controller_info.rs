//! Requests about the controller itself.

use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::terms::names::Uuid;

requests! { AboutRequests {
    GetAbout = get "/v1/about", Reader => ControllerInfo;
    GetOpenApi = get "/v1/openapi.json", Reader => Value;
} }

/// Returns the versions of the controller, its uuid and its store generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetAbout;

/// Returns the OpenAPI document of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetOpenApi;

/// Information about the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControllerInfo {
    /// The version of Pintle.
    pub version: String,
    /// The Juju version that charms and clients see: [`crate::JUJU_VERSION`].
    pub juju_version: String,
    /// The uuid of the controller.
    pub controller: Uuid,
    /// The generation of its store; a restored backup starts a new one.
    pub store_generation: Uuid,
}
