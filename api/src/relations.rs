//! Relations between applications.

use serde::{Deserialize, Serialize};
use state::names::RelationNumber;

/// Two ends of a relation, each `application` or `application:endpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    pub a: String,
    pub b: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrated {
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
