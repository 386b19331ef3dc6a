//! What a unit agent asks of the controller. The unit is the session's.

use crate::archives::Archive;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::activity::Activity;
use state::unit::local::Local;
use state::unit::record::{Record, Said};
use state::unit::snapshot::{BagRequest, BagView, Delta};

requests! { UnitAgentRequests {
    Attach = post "/v1/models/{model}/unit-agents/{agent}/attach", UnitAgent => Attached;
    Commit = post "/v1/models/{model}/unit-agents/{agent}/commit", UnitAgent => Committed;
    Report = post "/v1/models/{model}/unit-agents/{agent}/report", UnitAgent => ();
    Claim = post "/v1/models/{model}/unit-agents/{agent}/claim", UnitAgent => ClaimResponse;
    BagRequest = post "/v1/models/{model}/unit-agents/{agent}/bag", UnitAgent => Option<BagView>;
    FetchArchive = post "/v1/models/{model}/unit-agents/{agent}/archive", UnitAgent => Archive;
} watch {
    WatchUnit = post "/v1/models/{model}/unit-agents/{agent}/watch", UnitAgent => Shown;
} }

/// Begins a session: raises the unit's epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attach {
    /// Journaled before it is sent: the same nonce again answers the same epoch.
    pub nonce: Uuid,
    /// The epoch this agent last held; 0 = never. Lets the controller tell a copy from a newcomer.
    pub epoch: u64,
    /// The store's history that epoch was granted in: two histories may grant the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_generation: Option<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attached {
    pub store_generation: Uuid,
    pub epoch: u64,
    /// Of the last record applied; 0 and empty = none.
    pub sequence: u64,
    pub digest: String,
    /// The unit's memory as of that record; none = the controller knows of nothing.
    pub replica: Option<Local>,
    /// The store's revision at that moment: the memory may rest on it, so an older view is not acted on (I48).
    pub revision: u64,
}

/// Applies one record, exactly once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    pub epoch: u64,
    pub record: Record,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The store's revision that holds the record.
    pub revision: u64,
    /// Its conditional writes were refused; nothing of its writes was applied.
    pub refusal: Option<String>,
    /// Unconditional writes that were dropped because what they belong to is gone.
    pub dropped: Vec<String>,
}

/// Statuses and log lines sent early; their outcome record repeats what was not acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub epoch: u64,
    pub run: u64,
    pub said: Vec<Said>,
    /// What the agent is doing now, for status; none = nothing. Kept in memory only.
    pub executing: Option<Activity>,
    /// How long it has run when this is sent.
    pub executing_for_ms: u64,
}

/// Claims, renews or releases leadership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub epoch: u64,
    /// Give it up instead.
    pub release: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimResponse {
    /// This unit leads, for `term_ms` from when it *sent* the claim (design 13).
    pub granted: bool,
    pub generation: u64,
    pub term_ms: u64,
}

/// The charm archive of this digest; the caller verifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchArchive {
    pub sha256: String,
}

/// Watches the unit's view: a full view first when `from` is none, of another history, or compacted; then one delta
/// per revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchUnit {
    pub epoch: u64,
    #[serde(default)]
    pub from: Option<Position>,
}

/// One message of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    Delta(Delta),
    /// Nothing new up to here.
    Heartbeat(Position),
}
