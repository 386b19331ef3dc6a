//! Why a request about a relation is refused.

use crate::terms::names::{EndpointName, RelationEnds};
use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// What is done to the suspension of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SuspensionRequest {
    /// Suspend the relation.
    Suspend,
    /// Resume the relation.
    Resume,
}

/// Why a request about a relation is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RelationRefusal {
    /// A text is neither an application nor an endpoint.
    InvalidEnd {
        /// The text.
        text: String,
    },
    /// An application cannot be integrated with itself.
    SameApplication {
        /// The application.
        application: String,
    },
    /// The charm has no such endpoint.
    UnknownEndpoint {
        /// The application.
        application: String,
        /// The endpoint.
        endpoint: String,
    },
    /// No endpoint of one application fits one of the other.
    NoCommonInterface {
        /// The endpoints of the first application.
        left: Vec<String>,
        /// The endpoints of the second application.
        right: Vec<String>,
    },
    /// Neither application is a subordinate; a relation with container scope needs one.
    NoSubordinate,
    /// More than one pair of endpoints fits.
    AmbiguousEndpoints {
        /// The pairs.
        pairs: Vec<(String, String)>,
    },
    /// The relation exists.
    AlreadyExists {
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// The relation exists and is being removed.
    PredecessorExists {
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// The application has too many relations to check the limit of its endpoint.
    LimitNotCheckable {
        /// The endpoint.
        endpoint: EndpointName,
    },
    /// The endpoint has as many relations as it may have.
    LimitReached {
        /// The endpoint.
        endpoint: EndpointName,
        /// The most relations of the endpoint.
        limit: u32,
    },
    /// No relation is between these two.
    NotFound {
        /// The first application or endpoint.
        left: String,
        /// The second application or endpoint.
        right: String,
    },
    /// Too many pairs of endpoints fit to look for their relations.
    TooManyCandidates {
        /// The first application or endpoint.
        left: String,
        /// The second application or endpoint.
        right: String,
    },
    /// More than one relation is between these two.
    Ambiguous {
        /// The ends of each of them.
        candidates: Vec<RelationEnds>,
    },
    /// A peer relation cannot be removed alone.
    PeerRemoved {
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
    },
    /// A peer relation cannot be suspended.
    PeerSuspended {
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
        /// What was requested.
        request: SuspensionRequest,
    },
    /// The relation is being removed.
    BeingRemoved {
        /// The endpoints of the relation, in text order: `db:server web:db`.
        ends: RelationEnds,
        /// What was requested.
        request: SuspensionRequest,
    },
}

impl RelationRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            RelationRefusal::InvalidEnd { .. }
            | RelationRefusal::SameApplication { .. }
            | RelationRefusal::NoCommonInterface { .. }
            | RelationRefusal::NoSubordinate
            | RelationRefusal::LimitNotCheckable { .. } => Code::Invalid,
            RelationRefusal::UnknownEndpoint { .. } | RelationRefusal::NotFound { .. } => Code::NotFound,
            RelationRefusal::AmbiguousEndpoints { .. }
            | RelationRefusal::TooManyCandidates { .. }
            | RelationRefusal::Ambiguous { .. } => Code::Ambiguous,
            RelationRefusal::AlreadyExists { .. } | RelationRefusal::PredecessorExists { .. } => {
                Code::AlreadyExists
            }
            RelationRefusal::LimitReached { .. } => Code::Busy,
            RelationRefusal::PeerRemoved { .. } | RelationRefusal::PeerSuspended { .. } => Code::Forbidden,
            RelationRefusal::BeingRemoved { .. } => Code::NotAlive,
        }
    }
}
