//! The secrets of a hook's context: those that the unit may change, and the changes that the hook buffers
//! (spec/hook-tools.md 2.6).
//!
//! What a hook has written is visible to it at once. Nothing is published before the hook succeeds. Called by the
//! tools.

use super::hook_context::{HookContext, HookWriteError};
use super::secrets::{HookSecret, SecretRemoval, SecretWrite};
use crate::terms::secret::{SecretId, SecretOwnerKind};
use std::collections::{BTreeMap, BTreeSet};

impl HookContext {
    /// A secret that this unit may change, including the writes of this hook: its own, and those of its application if
    /// it leads. `None` for a secret that this hook has removed.
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
            last_revision: 0,
            access: BTreeMap::new(),
        });
        let mut secret = self.secrets.get(&id).cloned().or(created)?;
        if secret.owner == SecretOwnerKind::Application && !self.leader {
            return None;
        }
        if let Some(write) = write {
            secret.label = write.label.clone().unwrap_or(secret.label);
            secret.description = write.description.clone().unwrap_or(secret.description);
            if write.rotate.is_some_and(|policy| Some(policy) != secret.rotate) {
                // the controller computes the time of the next rotation when it applies the record
                (secret.rotate, secret.rotate_at_ms) = (write.rotate, None);
            }
            // The clock of the model is ahead of the host's by what users have advanced it by. The commit converts in the
            // same way, so that this hook reads the expiry that later hooks read.
            let by_model = |host_ms: i64| host_ms.saturating_add_unsigned(self.model.advanced_ms);
            secret.expire_at_ms = write.expire_at_ms.map(by_model).or(secret.expire_at_ms);
            if write.sealed.is_some() {
                secret.revision = secret.last_revision.max(secret.revision) + 1;
            }
            write.access.iter().for_each(|change| change.apply(&mut secret.access, &self.relations));
        }
        Some(secret)
    }

    /// The ids of [`HookContext::own_secret`].
    pub fn own_secrets(&self) -> Vec<SecretId> {
        let ids: BTreeSet<SecretId> =
            self.secrets.keys().chain(self.writes.secrets.keys()).copied().collect();
        ids.into_iter().filter(|id| self.own_secret(*id).is_some()).collect()
    }

    /// Whether the secret is the application's and this unit does not lead, so that it may not change it.
    pub fn requires_leadership(&self, id: SecretId) -> bool {
        !self.leader
            && self.secrets.get(&id).is_some_and(|secret| secret.owner == SecretOwnerKind::Application)
    }

    /// The own secret with this label.
    pub fn own_secret_by_label(&self, label: &str) -> Option<SecretId> {
        self.own_secrets()
            .into_iter()
            .find(|id| self.own_secret(*id).is_some_and(|secret| secret.label == label))
    }

    /// Buffers a change of a secret. What `write` has as none stays as it is. `write.removed` is ignored: see
    /// [`remove_secret`](Self::remove_secret).
    ///
    /// # Errors
    /// [`HookWriteError`] if the writes of the hook exceed their limit. The buffer is unchanged then.
    pub fn write_secret(&mut self, id: SecretId, write: SecretWrite) -> Result<(), HookWriteError> {
        let before = self.before();
        let merged = self.writes.secrets.entry(id).or_default();
        merged.created = write.created.or(merged.created);
        merged.label = write.label.or(merged.label.take());
        merged.description = write.description.or(merged.description.take());
        merged.rotate = write.rotate.or(merged.rotate);
        merged.expire_at_ms = write.expire_at_ms.or(merged.expire_at_ms);
        merged.sealed = write.sealed.or(merged.sealed.take());
        merged.access.extend(write.access);
        merged.refreshed |= write.refreshed;
        self.check_size(before)
    }

    /// Buffers the removal of a secret, or of one revision. The removal of a whole secret replaces its other writes; of a
    /// secret that this hook has created nothing is left.
    ///
    /// # Errors
    /// [`HookWriteError`] if the writes of the hook exceed their limit. The buffer is unchanged then.
    pub fn remove_secret(&mut self, id: SecretId, revision: Option<u64>) -> Result<(), HookWriteError> {
        let before = self.before();
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
