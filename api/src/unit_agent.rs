//! The requests of a unit agent. The unit is that of the authenticated caller.

use crate::archives::Archive;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::agents::secret_read::SecretRead;
pub use state::agents::session::Attach;
use state::agents::session::GrantedSession;
use state::lifecycle::leadership::GrantedLease;
use state::terms::activity::Activity;
use state::terms::leader_settings::LeaderSettingsView;
use state::terms::position::{Committed, Position};
use state::terms::secret::{SecretContent, SecretId, SecretOwnerKind};
use state::transitions::leader_settings::LeaderWrite;
use state::unit::record::{CommitOutcome, Record, RunReport};
use state::unit::relation_view::{BagRequest, BagView};
use state::unit::snapshot::Delta;

requests! { UnitAgentRequests {
    Attach = post "/v1/models/{model}/unit-agents/{agent}/attach", UnitAgent => Committed<GrantedSession>;
    Commit = post "/v1/models/{model}/unit-agents/{agent}/commit", UnitAgent => Committed<CommitOutcome>;
    Report = post "/v1/models/{model}/unit-agents/{agent}/report", UnitAgent => ();
    Claim = post "/v1/models/{model}/unit-agents/{agent}/claim", UnitAgent => ClaimResponse;
    WriteLeaderSettings = post "/v1/models/{model}/unit-agents/{agent}/leader-settings", UnitAgent => LeaderSettingsView;
    BagRequest = post "/v1/models/{model}/unit-agents/{agent}/bag", UnitAgent => Option<BagView>;
    FetchArchive = post "/v1/models/{model}/unit-agents/{agent}/archive", UnitAgent => Archive;
    FetchResource = post "/v1/models/{model}/unit-agents/{agent}/resource", UnitAgent => Archive;
    SealSecret = post "/v1/models/{model}/unit-agents/{agent}/seal-secret", UnitAgent => SealedSecret;
    OpenSecret = post "/v1/models/{model}/unit-agents/{agent}/open-secret", UnitAgent => SecretContent;
    ReadSecret = post "/v1/models/{model}/unit-agents/{agent}/read-secret", UnitAgent => SecretContent;
} watch {
    WatchUnit = post "/v1/models/{model}/unit-agents/{agent}/watch", UnitAgent => UnitWatchEvent;
} }

/// Applies one record, exactly once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// The epoch of the session.
    pub epoch: u64,
    /// The record.
    pub record: Record,
}

/// Reports statuses and log lines before the record of their run. The record repeats those that were not acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The epoch of the session.
    pub epoch: u64,
    /// The number of the run.
    pub run: u64,
    /// The reports of the run.
    pub reports: Vec<RunReport>,
    /// The activity that the agent executes, for the status; none if it is idle. The controller stores it in memory
    /// only.
    pub executing: Option<Activity>,
    /// For how long that activity had been running when the request was sent.
    pub executing_for_ms: u64,
}

/// Claims, renews or releases the leadership. An idle agent repeats it every [`crate::PRESENCE_INTERVAL_MS`], so that the
/// controller knows that the agent runs, and the response shows the agent that its view is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The epoch of the session.
    pub epoch: u64,
    /// Whether to release the leadership instead of claiming it.
    pub release: bool,
    /// The position of the agent's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<Position>,
}

/// The response to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimResponse {
    /// The granted lease; none if another unit is the leader, or after a release.
    pub lease: Option<GrantedLease>,
    /// The agent's view has not changed up to this position. None if the watch cannot confirm that.
    pub current_to: Option<Position>,
}

/// Changes the settings of the application that only its leader may write, exactly once. Returns all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteLeaderSettings {
    /// The epoch of the session.
    pub epoch: u64,
    /// The change.
    pub write: LeaderWrite,
}

/// Seals the content of a secret for a write of a running hook. Nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SealSecret {
    /// The epoch of the session.
    pub epoch: u64,
    /// The secret; none for a new one, whose id is returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretId>,
    /// Who owns the secret: its contents are bounded altogether.
    pub owner: SecretOwnerKind,
    /// The content.
    pub content: SecretContent,
}

/// A sealed content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SealedSecret {
    /// The secret.
    pub secret: SecretId,
    /// Text that only the controller can open, and only for this secret and unit.
    pub sealed: String,
}

/// Opens a content that was sealed for this unit, which a running hook has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSecret {
    /// The epoch of the session.
    pub epoch: u64,
    /// The secret.
    pub secret: SecretId,
    /// The sealed content.
    pub sealed: String,
}

/// Reads the content of a secret. The first read fixes the revision that later ones return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadSecret {
    /// The epoch of the session.
    pub epoch: u64,
    /// Which secret, and how.
    pub read: SecretRead,
}

/// Returns the charm archive of this digest. The caller verifies the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchArchive {
    /// The SHA-256 digest of the archive, in hexadecimal.
    pub sha256: String,
}

/// Returns a file that is attached to a resource of the unit's application. The caller verifies the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchResource {
    /// The resource.
    pub resource: String,
    /// The SHA-256 digest of the file, in hexadecimal.
    pub sha256: String,
}

/// Watches the view of the unit. Sends a full view first if `from` is none, of another store generation, or too
/// old; then deltas, each of one or several revisions.
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
    /// The view has not changed up to this position. Sent only if no claim has confirmed that for [`crate::HEARTBEAT_MS`].
    Heartbeat(Position),
}
