//! Requests about the constraints of machines.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::terms::constraints::Constraints;

requests! { ConstraintRequests {
    GetConstraints = post "/v1/models/{model}/constraints", Reader => ConstraintsInfo;
    SetConstraints = post "/v1/models/{model}/set-constraints", Writer => WriteResponse;
} }

/// Returns the constraints of an application or of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetConstraints {
    /// The name of the application; none for the model.
    #[serde(default)]
    pub application: Option<String>,
}

/// Replaces the constraints of an application or of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetConstraints {
    /// The name of the application; none for the model.
    #[serde(default)]
    pub application: Option<String>,
    /// All constraints, in the form in which they are typed: `mem=8G cores=2`.
    #[schemars(with = "String")]
    pub constraints: Constraints,
}

/// The constraints of an application or of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConstraintsInfo {
    /// All constraints, in the form in which they are typed.
    #[schemars(with = "String")]
    pub constraints: Constraints,
}
