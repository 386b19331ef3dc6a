//! The records that a unit agent sends: one per outcome of an operation, with all effects of that operation.
//!
//! The controller applies each record exactly once and in order (design 4): records have consecutive sequence
//! numbers, and each names the digest of the record before it. `Local` creates records, the agent's outbox keeps them
//! until they are acknowledged, and `transitions::record_commit` applies them. The type is defined in `local`, because
//! the stored state contains the unsent records, and a resync record contains the stored state.

pub use super::local::Record;
pub use super::writes::{REPORTS_MAX, RunReport};
use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::operation::{Hook, Operation};
pub use crate::terms::outcome::{Outcome, Timer};
use crate::terms::refusal::RefusalReason;
use crate::terms::secret::SecretId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the controller answers to a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitOutcome {
    /// Why the conditional writes of the record, and with them all its writes, were refused; none if they were
    /// applied. The agent then treats the operation as failed for this reason.
    pub refusal: Option<RefusalReason>,
    /// The parts of the record that were not applied although it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedWrite>,
}

/// A part of a record that was not applied although the record was: what it changes is gone, or the unit may not change
/// it (any more). The English is in `api::text::refusal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DroppedWrite {
    /// Settings of a relation that is removed.
    SettingsOfRemovedRelation {
        /// The relation.
        relation: RelationNumber,
    },
    /// Settings of a relation whose scope the unit is not in.
    SettingsOutOfScope {
        /// The relation.
        relation: RelationNumber,
    },
    /// Settings of a relation that are too large beside those of the other relations.
    SettingsTooLarge {
        /// The relation.
        relation: RelationNumber,
    },
    /// The status of the application: the unit is not the leader.
    ApplicationStatus {
        /// The unit.
        unit: UnitName,
    },
    /// The entry into the scope of a relation, by a unit that resynchronises.
    Entry {
        /// The relation.
        relation: RelationNumber,
        /// Why the entry was refused.
        refusal: RefusalReason,
    },
    /// Changes of a secret that is removed.
    RemovedSecret {
        /// The secret.
        secret: SecretId,
    },
}

impl Record {
    /// Returns the SHA-256 of the record's JSON in hex. Two records with one sequence number and different digests
    /// are a fork: two copies of one unit have run.
    pub fn digest(&self) -> String {
        sha256_hex(serde_json::to_vec(self).expect("records are plain data"))
    }

    /// Whether this record may follow the record with this digest. A resync record may follow any record.
    pub fn is_successor_of(&self, digest: &str) -> bool {
        self.previous_digest == digest || self.operation == Operation::Resync
    }

    /// Whether the controller may refuse a write of this record, so that no further operation starts before its reply
    /// (design 4): application bags, ports that may conflict, secrets, storage, entering a scope, and becoming Dead.
    /// Secret hooks are among them, because the view that shows the next one must contain what the last one has done.
    pub fn is_conditional(&self) -> bool {
        self.outcome.advances()
            && (self.writes.bags.values().any(|bag| !bag.application.is_empty())
                || !self.writes.ports.open.is_empty()
                || !self.writes.secrets.is_empty()
                || !self.writes.storage.is_empty()
                || matches!(
                    self.operation,
                    Operation::SetDead | Operation::EnterScope { .. } | Operation::Hook(Hook::Secret { .. })
                ))
    }
}

/// Returns the SHA-256 of the data as 64 lower-case hexadecimal digits.
pub(crate) fn sha256_hex(data: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(data))
}
