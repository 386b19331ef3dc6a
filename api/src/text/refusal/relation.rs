//! Refusals of requests about relations, in English.

use crate::text::refusal::refusal_text::{RefusalText, plain, with_hint};
use state::terms::refusal::relation::{RelationRefusal, SuspensionRequest};

/// What helps if a request matches more than one relation.
const NAME_ENDPOINTS: &str = "name the endpoints";

pub(super) fn text(reason: &RelationRefusal) -> RefusalText {
    match reason {
        RelationRefusal::InvalidEnd { text } => plain(format!(
            "invalid endpoint {text:?}: expected APPLICATION or APPLICATION:ENDPOINT, for example web:db"
        )),
        RelationRefusal::SameApplication { application } => {
            plain(format!("cannot integrate {application} with itself"))
        }
        RelationRefusal::UnknownEndpoint { application, endpoint } => {
            plain(format!("application {application:?} has no {endpoint:?} relation"))
        }
        RelationRefusal::NoCommonInterface { left, right } => plain(format!(
            "no relations found: [{}] and [{}] have no interface in common",
            left.join(", "),
            right.join(", ")
        )),
        RelationRefusal::NoSubordinate => {
            plain("container scoped relation requires at least one subordinate application")
        }
        RelationRefusal::AmbiguousEndpoints { pairs } => {
            plain(ambiguous(pairs.iter().map(|(left, right)| format!("{left} {right}"))))
        }
        RelationRefusal::AlreadyExists { ends } => plain(format!("relation {ends} already exists")),
        RelationRefusal::PredecessorExists { ends } => {
            plain(format!("relation {ends} already exists and is being removed"))
        }
        RelationRefusal::LimitNotCheckable { endpoint } => plain(format!(
            "cannot check the limit of endpoint {endpoint}: {} has too many relations",
            endpoint.application
        )),
        RelationRefusal::LimitReached { endpoint, limit } => plain(format!(
            "establishing a new relation for {endpoint} would exceed its maximum relation limit of {limit}"
        )),
        RelationRefusal::NotFound { left, right } => plain(format!("relation {left:?} {right:?} not found")),
        RelationRefusal::TooManyCandidates { left, right } => {
            with_hint(format!("{left:?} {right:?} may be one of many relations"), NAME_ENDPOINTS)
        }
        RelationRefusal::Ambiguous { candidates } => {
            with_hint(ambiguous(candidates.iter().map(ToString::to_string)), NAME_ENDPOINTS)
        }
        RelationRefusal::PeerRemoved { ends } => {
            with_hint(format!("cannot remove peer relation {ends}"), "it is removed with its application")
        }
        RelationRefusal::PeerSuspended { ends, request } => with_hint(
            format!("cannot {} peer relation {ends}", request_words(*request)),
            "a peer relation exists as long as its application",
        ),
        RelationRefusal::BeingRemoved { ends, request } => {
            plain(format!("cannot {} relation {ends}: it is being removed", request_words(*request)))
        }
    }
}

fn ambiguous(candidates: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = candidates.map(|candidate| format!("{candidate:?}")).collect();
    format!("ambiguous relation: could be {}", quoted.join(" or "))
}

/// The request as the text after `cannot`.
fn request_words(request: SuspensionRequest) -> &'static str {
    match request {
        SuspensionRequest::Suspend => "suspend",
        SuspensionRequest::Resume => "resume",
    }
}
