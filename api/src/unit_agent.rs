//! The requests of a unit agent. The unit is that of the session.

use crate::archives::Archive;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::activity::Activity;
use state::unit::local::Local;
use state::unit::record::{Record, RunReport};
use state::unit::snapshot::{BagRequest, BagView, Delta};

requests! { UnitAgentRequests {
    Attach = post "/v1/models/{model}/unit-agents/{agent}/attach", UnitAgent => AttachResponse;
    Commit = post "/v1/models/{model}/unit-agents/{agent}/commit", UnitAgent => CommitResponse;
    Report = post "/v1/models/{model}/unit-agents/{agent}/report", UnitAgent => ();
    Claim = post "/v1/models/{model}/unit-agents/{agent}/claim", UnitAgent => ClaimResponse;
    BagRequest = post "/v1/models/{model}/unit-agents/{agent}/bag", UnitAgent => Option<BagView>;
    FetchArchive = post "/v1/models/{model}/unit-agents/{agent}/archive", UnitAgent => Archive;
} watch {
    WatchUnit = post "/v1/models/{model}/unit-agents/{agent}/watch", UnitAgent => UnitWatchEvent;
} }

/// Starts a session: increments the epoch of the unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attach {
    /// A nonce that is stored in the journal before it is sent: the same nonce gets the same epoch again.
    pub nonce: Uuid,
    /// The last epoch of this agent; 0 if it never attached. With it the controller distinguishes a copy of an
    /// agent from a new one.
    pub epoch: u64,
    /// The store generation that granted this epoch: two generations may grant the same epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_generation: Option<Uuid>,
}

/// The session of a unit agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttachResponse {
    /// The current store generation.
    pub store_generation: Uuid,
    /// The epoch of the session, which every later request contains.
    pub epoch: u64,
    /// The sequence number of the last record that was applied; 0 if there is none.
    pub sequence: u64,
    /// The digest of that record; empty if there is none.
    pub digest: String,
    /// The replica of the unit's state as of that record; none if the controller has none.
    pub replica: Option<Local>,
    /// The revision of the store at the attach. The state may depend on it, so the agent does not act on an
    /// older view (I48).
    pub revision: u64,
}

/// Applies one record, exactly once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// The epoch of the session.
    pub epoch: u64,
    /// The record.
    pub record: Record,
}

/// The response to a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitResponse {
    /// The revision of the store that contains the record.
    pub revision: u64,
    /// Why the conditional writes of the record were refused; then none of its writes was applied.
    pub refusal: Option<String>,
    /// The unconditional writes that were dropped because their target no longer exists.
    pub dropped: Vec<String>,
}

/// Reports statuses and log lines before the record of their run. The record repeats what was not acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The epoch of the session.
    pub epoch: u64,
    /// The number of the run.
    pub run: u64,
    /// The reports of the run.
    pub reports: Vec<RunReport>,
    /// What the agent is running, for the status; none if nothing. The controller stores it in memory only.
    pub executing: Option<Activity>,
    /// For how long it had been running when the request was sent.
    pub executing_for_ms: u64,
}

/// Claims, renews or releases the leadership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The epoch of the session.
    pub epoch: u64,
    /// Whether to release the leadership instead of claiming it.
    pub release: bool,
}

/// The response to a leadership claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimResponse {
    /// Whether this unit is the leader, for `term_ms` from the time at which it *sent* the claim (design 13).
    pub granted: bool,
    /// The generation of the leadership.
    pub generation: u64,
    /// The length of the leadership term.
    pub term_ms: u64,
}

/// Returns the charm archive of this digest. The caller verifies the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchArchive {
    /// The SHA-256 digest of the archive, in hexadecimal.
    pub sha256: String,
}

/// Watches the view of the unit. Sends a full view first if `from` is none, of another store generation, or too
/// old; then one delta per revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchUnit {
    /// The epoch of the session.
    pub epoch: u64,
    /// The position of the view that the agent has.
    #[serde(default)]
    pub from: Option<Position>,
}

/// One event of the watch of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnitWatchEvent {
    /// The view has changed.
    Delta(Delta),
    /// The view has not changed up to this position.
    Heartbeat(Position),
}
