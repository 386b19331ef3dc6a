//! Requests about relations between applications.

use crate::changes::WriteResponse;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::cause::RelationName;
use state::terms::force::Force;
use state::terms::names::RelationNumber;
use state::terms::position::Committed;

requests! { RelationRequests {
    Integrate = post "/v1/models/{model}/integrate", Writer => Committed<RelationName>;
    RemoveRelation = post "/v1/models/{model}/remove-relation", Writer => WriteResponse;
    SuspendRelation = post "/v1/models/{model}/suspend-relation", Writer => WriteResponse;
    ResumeRelation = post "/v1/models/{model}/resume-relation", Writer => WriteResponse;
} }

/// Relates two applications, and returns the number and the ends of the relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Integrate(pub Ends);

/// Destroys a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRelation {
    /// The relation.
    pub relation: RelationChoice,
    /// Whether it is removed by force.
    #[serde(default)]
    pub force: Force,
}

/// Suspends a relation: the units of both ends leave it, and none enters until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspendRelation {
    /// The number of the relation.
    pub relation: RelationNumber,
    /// The reason, for people.
    #[serde(default)]
    pub message: String,
}

/// Resumes a suspended relation: its units enter it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRelation {
    /// The number of the relation.
    pub relation: RelationNumber,
}

/// The two ends of a relation, each `APPLICATION` or `APPLICATION:ENDPOINT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// The first end.
    pub a: String,
    /// The second end.
    pub b: String,
}

/// Identifies a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RelationChoice {
    /// By its two ends.
    Ends(Ends),
    /// By its number.
    Number(RelationNumber),
}
