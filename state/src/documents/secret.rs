//! Documents of secrets: their metadata, their sealed contents, and the units that read them.
//!
//! The metadata of a secret is one document, so that a change of it is one write. Contents are separate documents, one
//! for each revision: views read the metadata only, and nothing but the controller can open a content. What depends on
//! the owner or on a relation is derived: a secret whose owner is removed does not exist, and a grant whose relation is
//! removed gives no access, whether or not the janitor has deleted the documents.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use crate::terms::secret::{RotatePolicy, SecretId, SecretOwnerKind, SecretReader};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The owner of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretOwner {
    /// The kind of owner.
    pub kind: SecretOwnerKind,
    /// The unit, the application, or the model.
    pub id: Uuid,
}

/// The metadata of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretDoc {
    /// The owner.
    pub owner: SecretOwner,
    /// The owner's label, unique among the secrets of the owner; may be empty.
    pub label: String,
    /// The description; may be empty.
    pub description: String,
    /// How often the secret is rotated; none if the owner did not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<RotatePolicy>,
    /// When it is to be rotated next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_at_ms: Option<i64>,
    /// Whether that time has come, and secret-rotate has not run since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rotation_due: bool,
    /// When the newest revision expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// When the secret was created.
    pub created_ms: i64,
    /// When the secret was changed last.
    pub updated_ms: i64,
    /// The number of the revision that was created last. Revisions are counted from 1, and no number is used again.
    pub latest: u64,
    /// The revisions that are not removed.
    pub revisions: BTreeMap<u64, RevisionDoc>,
    /// Who may read the secret besides its owner, by the uuid of the reader.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grants: BTreeMap<Uuid, SecretGrantDoc>,
    /// Whether a revision that nobody reads any more is removed at once. Only for secrets of users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_prune: bool,
}

/// A revision of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionDoc {
    /// When the revision was created.
    pub created_ms: i64,
    /// The bytes of its sealed content, as it was written.
    pub bytes: u64,
    /// Whether the revision has expired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// When secret-expired runs again for the revision; none while it has to run, or before the revision has expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_again_ms: Option<i64>,
    /// Whether secret-remove has run for the revision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub obsolete_reported: bool,
}

/// The permission to read a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretGrantDoc {
    /// Who may read it.
    pub reader: SecretReader,
    /// The relation without which the grant gives no access; none for a grant of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<Uuid>,
}

/// The sealed content of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretContentDoc {
    /// The unit for which the controller sealed the content; the nil uuid for a user. It is part of what the seal
    /// protects.
    pub sealed_for: Uuid,
    /// The sealed content.
    pub sealed: String,
}

/// What one unit reads of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedSecretDoc {
    /// The unit's own label; may be empty.
    pub label: String,
    /// The revision that the unit reads.
    pub revision: u64,
    /// The newest revision that secret-changed has reported.
    pub reported: u64,
}

/// What the index of an owner has of one secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedSecretDoc {
    /// The owner's label; may be empty.
    pub label: String,
    /// The bytes of the contents of its revisions.
    pub bytes: u64,
}

/// The secrets of one owner.
pub type OwnedSecretsDoc = BTreeMap<SecretId, OwnedSecretDoc>;
/// The secrets that one unit reads.
pub type ConsumedSecretsDoc = BTreeMap<SecretId, ConsumedSecretDoc>;

impl Model {
    /// The metadata of a secret.
    pub fn secret(&self, id: SecretId) -> Key<SecretDoc> {
        self.key_by_name(Kind::Secret, id.as_str())
    }
    /// The sealed content of one revision of a secret.
    pub fn secret_content(&self, id: SecretId, revision: u64) -> Key<SecretContentDoc> {
        self.key_with_rest(Kind::SecretContent, format_args!("{id}/{revision}"))
    }
    /// The prefix of [`Self::secret_content`] for one secret.
    pub fn secret_contents(&self, id: SecretId) -> String {
        format!("{}{id}/", self.prefix(Kind::SecretContent))
    }
    /// Index of the secrets of an owner.
    pub fn secrets_of(&self, owner: Uuid) -> Key<OwnedSecretsDoc> {
        self.key(Kind::SecretsOf, &[owner])
    }
    /// The secrets that a unit reads.
    pub fn secrets_consumed(&self, unit: Uuid) -> Key<ConsumedSecretsDoc> {
        self.key(Kind::SecretsConsumed, &[unit])
    }
    /// Index of the units that read one revision of a secret.
    pub fn secret_tracker(&self, id: SecretId, revision: u64, unit: Uuid) -> Key<()> {
        self.key_with_rest(Kind::SecretTracker, format_args!("{id}/{revision}/{unit}"))
    }
    /// The prefix of [`Self::secret_tracker`] for one revision.
    pub fn secret_trackers(&self, id: SecretId, revision: u64) -> String {
        format!("{}{id}/{revision}/", self.prefix(Kind::SecretTracker))
    }
    /// The prefix of [`Self::secret_tracker`] for all revisions.
    pub fn secret_trackers_of(&self, id: SecretId) -> String {
        format!("{}{id}/", self.prefix(Kind::SecretTracker))
    }
    /// Index of the times at which something is to be done with a secret, in the order of these times.
    pub fn secret_timer(&self, at_ms: i64, id: SecretId) -> Key<()> {
        self.key_with_rest(Kind::SecretTimer, format_args!("{:016}/{id}", at_ms.max(0)))
    }
    /// The prefix of all [`Self::secret_timer`].
    pub fn secret_timers(&self) -> String {
        self.prefix(Kind::SecretTimer)
    }
}

/// The secret that a key is about: the first part after its kind.
pub fn secret_of_key(rest: &str) -> Option<SecretId> {
    rest.split('/').next()?.parse().ok()
}

impl SecretDoc {
    /// The newest revision that is not removed.
    pub fn newest(&self) -> u64 {
        self.revisions.last_key_value().map_or(self.latest, |(revision, _)| *revision)
    }

    /// The bytes of the contents of its revisions.
    pub fn content_bytes(&self) -> u64 {
        self.revisions.values().map(|revision| revision.bytes).sum()
    }

    /// When something is to be done with the secret next.
    pub fn timer_ms(&self) -> Option<i64> {
        let has_expired = self.revisions.get(&self.newest()).is_none_or(|revision| revision.expired);
        let expire_at = self.expire_at_ms.filter(|_| !has_expired);
        let expire_again = self.revisions.values().filter_map(|revision| revision.expire_again_ms);
        let rotate_at = self.rotate_at_ms.filter(|_| !self.rotation_due);
        rotate_at.into_iter().chain(expire_at).chain(expire_again).min()
    }
}
