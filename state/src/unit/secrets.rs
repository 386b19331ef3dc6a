//! Secrets as a unit sees them and changes them (spec/hook-tools.md 2.6).
//!
//! How the content of a secret gets from a hook to the store: the tool sends the plain content to the controller, which
//! seals it and returns text that it alone can open. The write of the hook contains this text, so that the record, the
//! journal and `calls.yaml` need no other protection, the record is complete without any document that was staged before,
//! and a hook that fails leaves nothing behind. The key never leaves the controller, so that a copy of a unit's folder
//! opens nothing. To read a content that the same hook has written, the tool sends the sealed text back.

use super::hook_context::{HookContext, TooLarge};
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
    /// When it is rotated next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_at_ms: Option<i64>,
    /// When the newest revision expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// The newest revision.
    pub revision: u64,
    /// Who may read it, by the tag of the reader.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub access: BTreeMap<String, SecretScope>,
}

/// The relation in which a secret was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretScope {
    /// The relation's number; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<RelationNumber>,
    /// Its endpoints in text order: `myapp:db mysql:server`.
    pub key: String,
}

/// The writes of a hook, by secret.
pub type SecretWrites = BTreeMap<SecretId, SecretWrite>;

/// What a hook changes of one secret. What is none stays as it is.
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
    /// When the newest revision expires.
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
    /// Whether the unit itself reads the newest revision from then on (secret-get --refresh).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tracks_latest: bool,
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
    /// Nobody may read it who was granted it in the relation, or the application or the unit may not.
    Revoke {
        /// The relation.
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
    /// The number of documents that a commit of this write changes: its metadata and its timer, and each content.
    pub(super) fn documents(&self) -> usize {
        let timer = self.rotate.is_some() || self.expire_at_ms.is_some() || self.removed.is_some();
        let contents = match &self.removed {
            None => usize::from(self.sealed.is_some()),
            Some(SecretRemoval::All) => 1,
            Some(SecretRemoval::Revisions(revisions)) => revisions.len() + usize::from(self.sealed.is_some()),
        };
        1 + 2 * usize::from(timer) + contents + 2 * usize::from(self.tracks_latest)
    }

    /// The number of documents that a commit of this write reads: its metadata, and the relation and the reader of each
    /// grant.
    pub(super) fn reads(&self) -> usize {
        1 + 2 * self.access.len()
    }
}

impl AccessChange {
    /// Applies the change to the readers of a secret, as the hook sees them.
    fn apply(&self, readers: &mut BTreeMap<String, SecretScope>, key_of: impl Fn(RelationNumber) -> String) {
        match self {
            AccessChange::Grant { relation, application, unit } => {
                let reader = unit.clone().map(SecretReader::Unit);
                let reader = reader.unwrap_or_else(|| SecretReader::Application(application.clone()));
                readers
                    .insert(reader.tag(), SecretScope { relation: Some(*relation), key: key_of(*relation) });
            }
            AccessChange::Revoke { relation, application, unit } => {
                let application_tag = application.clone().map(|name| SecretReader::Application(name).tag());
                let unit_tag = unit.clone().map(|name| SecretReader::Unit(name).tag());
                readers.retain(|reader, scope| {
                    let is_named = [&application_tag, &unit_tag].contains(&&Some(reader.clone()));
                    let is_in_scope = application.is_none() && unit.is_none() && scope.relation == *relation;
                    !(is_named || is_in_scope)
                });
            }
        }
    }
}

impl HookContext {
    /// A secret that this unit may change, including the writes of this hook: its own, and those of its application if it
    /// leads. A secret that this hook has removed is none any more.
    pub fn own_secret(&self, id: SecretId) -> Option<HookSecret> {
        let write = self.writes.secrets.get(&id);
        if write.is_some_and(|write| write.removed == Some(SecretRemoval::All)) {
            return None;
        }
        let created = write.and_then(|write| write.created).map(|owner| HookSecret {
            owner,
            label: String::new(),
            description: String::new(),
            rotate: None,
            rotate_at_ms: None,
            expire_at_ms: None,
            revision: 0,
            access: BTreeMap::new(),
        });
        let mut secret = self.secrets.get(&id).cloned().or(created)?;
        if secret.owner == SecretOwnerKind::Application && !self.leader {
            return None;
        }
        if let Some(write) = write {
            secret.label = write.label.clone().unwrap_or(secret.label);
            secret.description = write.description.clone().unwrap_or(secret.description);
            secret.rotate = write.rotate.or(secret.rotate);
            secret.expire_at_ms = write.expire_at_ms.or(secret.expire_at_ms);
            secret.revision += u64::from(write.sealed.is_some());
            let key_of =
                |number| self.relations.get(&number).map(|relation| relation.key.clone()).unwrap_or_default();
            write.access.iter().for_each(|change| change.apply(&mut secret.access, key_of));
        }
        Some(secret)
    }

    /// The ids of [`HookContext::own_secret`].
    pub fn own_secrets(&self) -> Vec<SecretId> {
        let ids: BTreeSet<SecretId> =
            self.secrets.keys().chain(self.writes.secrets.keys()).copied().collect();
        ids.into_iter().filter(|id| self.own_secret(*id).is_some()).collect()
    }

    /// Whether the id is that of a secret of the application, and the unit does not lead.
    pub fn is_secret_of_leader(&self, id: SecretId) -> bool {
        !self.leader
            && self.secrets.get(&id).is_some_and(|secret| secret.owner == SecretOwnerKind::Application)
    }

    /// The own secret with this label.
    pub fn own_secret_by_label(&self, label: &str) -> Option<SecretId> {
        self.own_secrets()
            .into_iter()
            .find(|id| self.own_secret(*id).is_some_and(|secret| secret.label == label))
    }

    /// Buffers a change of a secret. What `write` has as none stays as it is.
    ///
    /// # Errors
    /// [`TooLarge`] if the writes of the hook exceed their limit. The buffer is unchanged then.
    pub fn write_secret(&mut self, id: SecretId, write: SecretWrite) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        let merged = self.writes.secrets.entry(id).or_default();
        merged.created = write.created.or(merged.created);
        merged.label = write.label.or(merged.label.take());
        merged.description = write.description.or(merged.description.take());
        merged.rotate = write.rotate.or(merged.rotate);
        merged.expire_at_ms = write.expire_at_ms.or(merged.expire_at_ms);
        merged.sealed = write.sealed.or(merged.sealed.take());
        merged.access.extend(write.access);
        merged.tracks_latest |= write.tracks_latest;
        self.check_size(before)
    }

    /// Buffers the removal of a secret, or of one revision. The removal of a secret that this hook has created drops all
    /// of its writes.
    ///
    /// # Errors
    /// [`TooLarge`] if the writes of the hook exceed their limit. The buffer is unchanged then.
    pub fn remove_secret(&mut self, id: SecretId, revision: Option<u64>) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        let pending = self.writes.secrets.remove(&id).unwrap_or_default();
        let is_pending_create = pending.created.is_some();
        match (revision, pending.removed.clone()) {
            (None, _) if is_pending_create => return Ok(()),
            (None, _) | (Some(_), Some(SecretRemoval::All)) => {
                let removed = Some(SecretRemoval::All);
                self.writes.secrets.insert(id, SecretWrite { removed, ..SecretWrite::default() });
            }
            (Some(revision), removed) => {
                let mut revisions = match removed {
                    Some(SecretRemoval::Revisions(revisions)) => revisions,
                    Some(SecretRemoval::All) | None => BTreeSet::new(),
                };
                revisions.insert(revision);
                let removed = Some(SecretRemoval::Revisions(revisions));
                self.writes.secrets.insert(id, SecretWrite { removed, ..pending });
            }
        }
        self.check_size(before)
    }
}
