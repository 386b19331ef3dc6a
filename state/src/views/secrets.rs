//! The secrets in the view of a unit: those of the unit and of its application, and those that it reads.
//!
//! A view contains no content, sealed or not, and nothing of a secret that the unit neither owns nor may read (I31).

use crate::documents::document_reads::Documents;
use crate::documents::draft::read;
use crate::documents::prelude::{SecretDoc, SecretGrantDoc};
use crate::lifecycle::secret;
use crate::terms::cause::RelationName;
use crate::terms::secret::{SecretId, SecretOwnerKind, SecretReader};
use crate::unit::secrets::{ConsumedSecretView, HookSecret, OwnedSecretView, SecretView};
use crate::unit::snapshot::Change;
use crate::views::dependencies::SecretDependencies;
use crate::views::unit_view_reader::UnitViewReader;
use std::collections::{BTreeMap, BTreeSet};

impl UnitViewReader<'_> {
    /// All secrets of the view, and what they depend on.
    pub fn secrets(&self) -> (BTreeMap<SecretId, SecretView>, SecretDependencies) {
        let mut secrets: BTreeMap<SecretId, SecretView> = BTreeMap::new();
        let mut dependencies = SecretDependencies::default();
        let mut depends_on = |id: SecretId, secret: Option<&SecretDoc>| {
            dependencies.secrets.insert(id);
            let Some(secret) = secret else { return };
            dependencies.owners.insert(secret.owner.id);
            dependencies.relations.extend(secret.grants.values().filter_map(|grant| grant.relation));
        };
        for (owner, kind) in
            [(self.unit, SecretOwnerKind::Unit), (self.doc.application, SecretOwnerKind::Application)]
        {
            for id in read(self.reader, &self.model.secrets_of(owner)).unwrap_or_default().into_keys() {
                let secret = read(self.reader, &self.model.secret(id));
                depends_on(id, secret.as_ref());
                let owned = secret.map(|secret| self.owned_secret(id, kind, &secret));
                secrets.entry(id).or_default().owned = owned;
            }
        }
        for (id, entry) in read(self.reader, &self.model.secrets_consumed(self.unit)).unwrap_or_default() {
            depends_on(id, read(self.reader, &self.model.secret(id)).as_ref());
            let Ok(secret) = secret::find(&mut { self.reader }, self.model, id) else { continue };
            if !secret::may_read(&mut { self.reader }, self.model, &secret, self.unit, self.doc) {
                continue;
            }
            let latest = secret.newest();
            let changed = latest > entry.revision && latest > entry.reported;
            secrets.entry(id).or_default().consumed =
                Some(ConsumedSecretView { label: entry.label, latest, changed });
        }
        secrets.retain(|_, secret| *secret != SecretView::default());
        (secrets, dependencies)
    }

    fn owned_secret(&self, id: SecretId, owner: SecretOwnerKind, secret: &SecretDoc) -> OwnedSecretView {
        let newest = secret.newest();
        let is_read = |revision: u64| (&mut { self.reader }).any(&self.model.secret_trackers(id, revision));
        let (mut expired, mut obsolete) = (BTreeSet::new(), BTreeSet::new());
        for (revision, doc) in &secret.revisions {
            if doc.expired && doc.expire_again_ms.is_none() {
                expired.insert(*revision);
            }
            if *revision < newest && !doc.obsolete_reported && !is_read(*revision) {
                obsolete.insert(*revision);
            }
        }
        OwnedSecretView {
            secret: HookSecret {
                owner,
                label: secret.label.clone(),
                description: secret.description.clone(),
                rotate: secret.rotate,
                rotate_at_ms: secret.rotate_at_ms,
                expire_at_ms: secret.expire_at_ms,
                revision: newest,
                last_revision: secret.latest,
                access: secret.grants.values().filter_map(|grant| self.access(grant)).collect(),
            },
            rotation_due: secret.rotation_due,
            expired,
            obsolete,
        }
    }

    /// Returns the reader and the relation of a grant; none if the grant has no relation, or the relation was removed.
    fn access(&self, grant: &SecretGrantDoc) -> Option<(SecretReader, RelationName)> {
        let relation = read(self.reader, &self.model.relation(grant.relation?))?;
        Some((grant.reader.clone(), relation.name()))
    }
}

/// The differences between two views of secrets.
pub fn changes(
    before: &BTreeMap<SecretId, SecretView>,
    after: &BTreeMap<SecretId, SecretView>,
) -> Vec<Change> {
    let removed = before.keys().filter(|id| !after.contains_key(id));
    let removed = removed.map(|id| Change::Secret { id: *id, secret: None });
    let changed = after.iter().filter(|(id, secret)| before.get(id) != Some(secret));
    let changed =
        changed.map(|(id, secret)| Change::Secret { id: *id, secret: Some(Box::new(secret.clone())) });
    removed.chain(changed).collect()
}
