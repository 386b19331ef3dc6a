//! Relations between applications.

use crate::changes::Changed;
use crate::removal::Force;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::names::RelationNumber;

requests! { RelationRequests {
    Integrate = post "/v1/models/{model}/integrate", Writer => IntegrateResponse;
    RemoveRelation = post "/v1/models/{model}/remove-relation", Writer => Changed;
    SuspendRelation = post "/v1/models/{model}/suspend-relation", Writer => Changed;
    ResumeRelation = post "/v1/models/{model}/resume-relation", Writer => Changed;
} }

/// Relates two applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrate(pub Ends);

/// Destroys a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveRelation {
    pub relation: RelationChoice,
    #[serde(default)]
    pub force: Force,
}

/// Suspends a relation: the units of both sides leave it, and none enters until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendRelation {
    pub relation: RelationNumber,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

/// Lets the units of a suspended relation enter it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeRelation {
    pub relation: RelationNumber,
}

/// Two ends of a relation, each `application` or `application:endpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    pub a: String,
    pub b: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrateResponse {
    pub relation: RelationNumber,
    /// `db:server web:db`.
    pub key: String,
    pub revision: u64,
}

/// Which relation to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationChoice {
    Ends(Ends),
    Number(RelationNumber),
}
