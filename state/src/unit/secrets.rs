//! Secrets as a unit sees them and changes them (spec/hook-tools.md 2.6).
//!
//! The tool sends the plain content of a secret to the controller, which seals it and returns the sealed text. The write
//! of the hook contains that text: therefore the record and the journal contain no plain content, the record needs no
//! document that was stored before it, and a failed hook leaves nothing behind. The key never leaves the controller, so that
//! nothing on the unit's machine can open a sealed text. To read a content that the same hook has written, the tool sends
//! the sealed text back. (A content that the hook itself publishes or prints is stored like any other text: `secret_mask`
//! hides it in what people are shown.)

use super::hook_relation::HookRelation;
use crate::terms::cause::RelationName;
use crate::terms::names::{RelationNumber, UnitName};
use crate::terms::secret::{RotatePolicy, SecretId, SecretOwnerKind, SecretReader};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a view shows of one secret. A secret that the unit neither owns nor reads is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretView {
    /// The secret as its owner sees it; none if another unit or application owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<OwnedSecretView>,
    /// What the unit reads of it; none if it never read it, or may not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<ConsumedSecretView>,
}

/// A secret as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnedSecretView {
    /// What hooks read of it.
    pub secret: HookSecret,
    /// Whether secret-rotate is to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rotation_due: bool,
    /// The revisions for which secret-expired is to run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub expired: BTreeSet<u64>,
    /// The revisions for which secret-remove is to run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub obsolete: BTreeSet<u64>,
}

/// What a unit reads of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsumedSecretView {
    /// The unit's own label; may be empty.
    pub label: String,
    /// The newest revision.
    pub latest: u64,
    /// Whether secret-changed is to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

/// A secret of the unit or its application, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookSecret {
    /// Whether the unit or its application owns it.
    pub owner: SecretOwnerKind,
    /// The label; may be empty.
    pub label: String,
    /// The description; may be empty.
    pub description: String,
    /// How often it is rotated; none if the owner did not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<RotatePolicy>,
    /// When it is rotated next, by the clock of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_at_ms: Option<i64>,
    /// When the newest revision expires, by the clock of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// The newest revision.
    pub revision: u64,
    /// The number of the revision that was created last, which may have been removed since: no number is used again.
    #[serde(default)]
    pub last_revision: u64,
    /// Who may read it, and the relation in which it was granted; a list of pairs when it is serialised.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::terms::pairs")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(SecretReader, RelationName)>"))]
    pub access: BTreeMap<SecretReader, RelationName>,
}

/// The writes of a hook, by secret.
pub type SecretWrites = BTreeMap<SecretId, SecretWrite>;

/// What a hook changes of one secret. A field that is `None` is not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SecretWrite {
    /// The owner, if the hook creates the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<SecretOwnerKind>,
    /// The label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How often it is rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate: Option<RotatePolicy>,
    /// When the newest revision expires, by the clock of the host; the commit stores it by the clock of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// The content of a new revision, sealed by the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Grants and revocations, in the order of the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessChange>,
    /// What is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<SecretRemoval>,
    /// Whether the unit itself reads, from then on, the revision that is the newest when the record is applied
    /// (secret-get --refresh). It does not follow later revisions.
    #[serde(rename = "tracks_latest", skip_serializing_if = "std::ops::Not::not")]
    pub refreshed: bool,
}

/// A change of who may read a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AccessChange {
    /// The application on the other side of the relation may read it, or only one of its units.
    Grant {
        /// The relation.
        relation: RelationNumber,
        /// The application on its other side.
        application: String,
        /// The only unit that may read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<UnitName>,
    },
    /// The named application or unit may not read it any more, whichever relation it was granted in. If neither is
    /// named, nobody to whom it was granted in the relation may read it any more.
    Revoke {
        /// The relation; ignored if an application or a unit is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relation: Option<RelationNumber>,
        /// The application.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// The unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<UnitName>,
    },
}

/// What a hook removes of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecretRemoval {
    /// The whole secret.
    All,
    /// These revisions.
    Revisions(BTreeSet<u64>),
}

impl SecretWrite {
    /// The number of documents that a commit of this write changes, at most: its metadata; its timer, deleted and written;
    /// each content, or for the removal of a whole secret the list of what the janitor deletes; and, if the unit reads
    /// another revision from then on, its tracker, deleted and written. What the commit changes once for all secrets is
    /// not included.
    pub(super) fn document_count(&self) -> usize {
        let timer = self.rotate.is_some()
            || self.expire_at_ms.is_some()
            || self.removed.is_some()
            || self.sealed.is_some();
        let contents = match &self.removed {
            None => usize::from(self.sealed.is_some()),
            Some(SecretRemoval::All) => 1,
            Some(SecretRemoval::Revisions(revisions)) => revisions.len() + usize::from(self.sealed.is_some()),
        };
        1 + 2 * usize::from(timer) + contents + 2 * usize::from(self.refreshed)
    }

    /// The number of documents that a commit of this write reads, at most: its metadata, and the relation and the reader
    /// of each change of access.
    pub(super) fn read_count(&self) -> usize {
        1 + 2 * self.access.len()
    }
}

impl AccessChange {
    /// Applies the change to the readers of a secret, as the hook sees them. A grant in a relation that the hook does
    /// not see gives no access.
    pub(super) fn apply(
        &self,
        readers: &mut BTreeMap<SecretReader, RelationName>,
        relations: &BTreeMap<RelationNumber, HookRelation>,
    ) {
        match self {
            AccessChange::Grant { relation, application, unit } => {
                let reader = unit.clone().map(SecretReader::Unit);
                let reader = reader.unwrap_or_else(|| SecretReader::Application(application.clone()));
                let ends = relations.get(relation).map(|relation| relation.ends.clone());
                readers.extend(ends.map(|ends| (reader, RelationName { number: *relation, ends })));
            }
            AccessChange::Revoke { relation, application, unit } => {
                readers.retain(|reader, scope| {
                    let is_named = match reader {
                        SecretReader::Application(name) => application.as_ref() == Some(name),
                        SecretReader::Unit(name) => unit.as_ref() == Some(name),
                    };
                    let is_in_scope =
                        application.is_none() && unit.is_none() && Some(scope.number) == *relation;
                    !(is_named || is_in_scope)
                });
            }
        }
    }
}
