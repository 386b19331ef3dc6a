//! Secrets of units, applications and users: who may read them, how they change, and how they end (spec/hook-tools.md
//! 2.6).
//!
//! A content is only ever sealed here: this crate has no key. Access is derived at every read: a secret whose owner is
//! gone does not exist, and a grant counts only while its relation exists, so that the end of a relation revokes it at
//! once. Called by the transitions that apply what hooks write (`agents::secret_writes`), what units read
//! (`agents::secret_read`) and what users request (`user_secret`), for timers (`transitions::due_secrets`), when an
//! owner is removed, and for what removed secrets leave behind (`cleanup`).

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::{
    Kind, Model, OwnedSecretsDoc, RevisionDoc, SecretContentDoc, SecretDoc, SecretGrantDoc, SecretOwner,
    UnitDoc, last_id,
};
use crate::documents::refusal::Refusal;
use crate::documents::secret::secret_of_key;
use crate::lifecycle::model::model_time_ms;
use crate::terms::names::Uuid;
use crate::terms::refusal::secret::{SecretLimit, SecretRefusal};
use crate::terms::secret::{
    DESCRIPTION_BYTES_MAX, GRANTS_MAX, LABEL_BYTES_MAX, OWNED_BYTES_MAX, REVISIONS_MAX, SEALED_BYTES_MAX,
    SECRETS_MAX, SecretId, SecretOwnerKind,
};
use crate::unit::secrets::SecretWrite;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The secret, if its owner exists.
///
/// # Errors
/// If there is none.
pub(crate) fn find(documents: &mut impl Documents, model: Model, id: SecretId) -> Result<SecretDoc, Refusal> {
    let secret = documents.document(&model.secret(id));
    let secret = secret.filter(|secret| match secret.owner.kind {
        SecretOwnerKind::Unit => documents.document(&model.unit(secret.owner.id)).is_some(),
        SecretOwnerKind::Application => documents.document(&model.application(secret.owner.id)).is_some(),
        SecretOwnerKind::Model => true,
    });
    secret.ok_or_else(|| not_found(id))
}

pub(crate) fn not_found(id: impl Display) -> Refusal {
    SecretRefusal::NotFound { name: id.to_string() }.into()
}

/// Whether the unit may read the secret.
pub(crate) fn may_read(
    documents: &mut impl Documents,
    model: Model,
    secret: &SecretDoc,
    unit: Uuid,
    doc: &UnitDoc,
) -> bool {
    if [unit, doc.application].contains(&secret.owner.id) {
        return true;
    }
    [unit, doc.application].iter().filter_map(|reader| secret.grants.get(reader)).any(|grant| {
        grant.relation.is_none_or(|relation| documents.document(&model.relation(relation)).is_some())
    })
}

/// The secret of this owner with this label.
pub(crate) fn find_by_label(draft: &mut Draft, model: Model, owner: Uuid, label: &str) -> Option<SecretId> {
    let owned = draft.get(&model.secrets_of(owner))?;
    owned.iter().find(|(_, other)| other.label == label).map(|(id, _)| *id)
}

/// Changes the index of the revision that a unit reads.
pub(crate) fn track(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    id: SecretId,
    before: Option<u64>,
    now: u64,
) {
    if before == Some(now) {
        return;
    }
    if let Some(before) = before {
        draft.remove(&model.secret_tracker(id, before, unit));
    }
    draft.put(&model.secret_tracker(id, now, unit), &());
}

/// Sets the label of a secret, and enters the secret into the index of its owner.
pub(crate) fn set_label(
    owned: &mut OwnedSecretsDoc,
    id: SecretId,
    secret: &mut SecretDoc,
    label: Option<&str>,
) -> Result<(), Refusal> {
    if let Some(label) = label {
        require_bytes(label, LABEL_BYTES_MAX)?;
        if !label.is_empty() && owned.iter().any(|(other, taken)| *other != id && taken.label == label) {
            return Err(SecretRefusal::LabelExists { label: label.to_owned() }.into());
        }
        label.clone_into(&mut secret.label);
    }
    owned.entry(id).or_default().label.clone_from(&secret.label);
    if owned.len() > SECRETS_MAX {
        return Err(SecretRefusal::TooMany { what: SecretLimit::Secrets, max: SECRETS_MAX }.into());
    }
    Ok(())
}

/// Enters the bytes of the contents of a secret into the index of its owner.
pub(crate) fn count_bytes(owned: &mut OwnedSecretsDoc, id: SecretId, secret: &SecretDoc) {
    if let Some(entry) = owned.get_mut(&id) {
        entry.bytes = secret.content_bytes();
    }
}

/// Refuses contents that are larger altogether than an owner may have, with `more` bytes that are to be added.
pub(crate) fn require_room(owned: &OwnedSecretsDoc, more: u64) -> Result<(), SecretRefusal> {
    let bytes = owned.values().map(|secret| secret.bytes).sum::<u64>().saturating_add(more);
    match bytes > OWNED_BYTES_MAX {
        true => Err(SecretRefusal::NoRoom { bytes, max: OWNED_BYTES_MAX }),
        false => Ok(()),
    }
}

/// A secret without revisions.
pub(crate) fn new_secret(owner: SecretOwner, at_ms: i64) -> SecretDoc {
    SecretDoc {
        owner,
        label: String::new(),
        description: String::new(),
        rotate: None,
        rotate_at_ms: None,
        rotation_due: false,
        expire_at_ms: None,
        created_ms: at_ms,
        updated_ms: at_ms,
        latest: 0,
        revisions: BTreeMap::new(),
        grants: BTreeMap::new(),
        auto_prune: false,
    }
}

/// When a secret is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeTime {
    /// By the clock of the host.
    pub(crate) at_ms: i64,
    /// By the clock of the model, which decides when the secret is due.
    pub(crate) model_ms: i64,
}

impl ChangeTime {
    /// This time of the host.
    pub(crate) fn new(draft: &mut Draft, model: Model, at_ms: i64) -> ChangeTime {
        ChangeTime { at_ms, model_ms: model_time_ms(draft, model, at_ms) }
    }

    /// A time of the host by the clock of the model.
    fn by_model(self, host_ms: i64) -> i64 {
        host_ms.saturating_add(self.model_ms.saturating_sub(self.at_ms))
    }
}

/// Changes everything but the label and the readers. Returns the content of the new revision, if there is one.
pub(crate) fn change_metadata(
    secret: &mut SecretDoc,
    sealed_for: Uuid,
    time: ChangeTime,
    write: &SecretWrite,
) -> Result<Option<SecretContentDoc>, Refusal> {
    let ChangeTime { at_ms, model_ms } = time;
    secret.updated_ms = at_ms;
    if let Some(description) = &write.description {
        require_bytes(description, DESCRIPTION_BYTES_MAX)?;
        secret.description.clone_from(description);
    }
    if let Some(rotate) = write.rotate.filter(|rotate| Some(*rotate) != secret.rotate) {
        secret.rotate = Some(rotate);
        secret.rotation_due = false;
        secret.rotate_at_ms = rotate.interval_ms().map(|interval| model_ms.saturating_add(interval));
    }
    let content = match &write.sealed {
        None => None,
        Some(sealed) => {
            if sealed.len() > SEALED_BYTES_MAX {
                let (what, max) = (SecretLimit::ContentBytes, SEALED_BYTES_MAX);
                return Err(SecretRefusal::TooMany { what, max }.into());
            }
            if secret.revisions.len() >= REVISIONS_MAX {
                let (what, max) = (SecretLimit::Revisions, REVISIONS_MAX);
                return Err(SecretRefusal::TooMany { what, max }.into());
            }
            secret.latest += 1;
            let bytes = sealed.len() as u64;
            let revision = RevisionDoc { created_ms: at_ms, bytes, ..RevisionDoc::default() };
            secret.revisions.insert(secret.latest, revision);
            // the time at which an older revision has expired does not concern the new one
            secret.expire_at_ms = secret.expire_at_ms.filter(|expire_at| *expire_at > model_ms);
            Some(SecretContentDoc { sealed_for, sealed: sealed.clone() })
        }
    };
    if write.expire_at_ms.is_some() {
        secret.expire_at_ms = write.expire_at_ms.map(|host_ms| time.by_model(host_ms));
        let newest = secret.newest();
        if let Some(revision) = secret.revisions.get_mut(&newest) {
            (revision.expired, revision.expire_again_ms) = (false, None);
        }
    }
    Ok(content)
}

pub(crate) fn require_bytes(text: &str, max: usize) -> Result<(), Refusal> {
    if text.len() > max {
        return Err(SecretRefusal::TooMany { what: SecretLimit::TextBytes, max }.into());
    }
    Ok(())
}

/// Adds a grant.
pub(crate) fn grant(secret: &mut SecretDoc, reader: Uuid, grant: SecretGrantDoc) -> Result<(), Refusal> {
    secret.grants.insert(reader, grant);
    if secret.grants.len() > GRANTS_MAX {
        return Err(SecretRefusal::TooMany { what: SecretLimit::Grants, max: GRANTS_MAX }.into());
    }
    Ok(())
}

/// Removes a revision of a user's secret that is not the newest, if the user wants this and no unit reads it any more.
pub(crate) fn prune(draft: &mut Draft, model: Model, id: SecretId, secret: &mut SecretDoc, revision: u64) {
    let is_unused = secret.auto_prune
        && revision != secret.newest()
        && draft.any_key(&model.secret_trackers(id, revision), &[]).is_none();
    if is_unused {
        remove_revision(draft, model, id, secret, revision);
    }
}

/// Removes a revision with its content. Returns whether there was one.
pub(crate) fn remove_revision(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    secret: &mut SecretDoc,
    revision: u64,
) -> bool {
    if secret.revisions.remove(&revision).is_none() {
        return false;
    }
    draft.remove(&model.secret_content(id, revision));
    let index = model.secrets_of(secret.owner.id);
    let mut owned = draft.get(&index).unwrap_or_default();
    count_bytes(&mut owned, id, secret);
    draft.put(&index, &owned);
    true
}

/// Stores the metadata of a secret, and its timer.
pub(crate) fn put(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    before: Option<&SecretDoc>,
    after: &SecretDoc,
) {
    let (old, new) = (before.and_then(SecretDoc::timer_ms), after.timer_ms());
    if old != new {
        if let Some(at_ms) = old {
            draft.remove(&model.secret_timer(at_ms, id));
        }
        if let Some(at_ms) = new {
            draft.put(&model.secret_timer(at_ms, id), &());
        }
    }
    if before != Some(after) {
        draft.put(&model.secret(id), after);
    }
}

/// Removes a secret. The janitor deletes its contents; nobody can read them any more.
pub(crate) fn remove(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    secret: Option<&SecretDoc>,
    cleanup: Uuid,
) {
    if let Some(at_ms) = secret.and_then(SecretDoc::timer_ms) {
        draft.remove(&model.secret_timer(at_ms, id));
    }
    draft.remove(&model.secret(id));
    draft.put(&model.cleanup(cleanup), &vec![model.secret_contents(id), model.secret_trackers_of(id)]);
}

/// Removes a removed secret from what a unit reads, so that the unit can read others; `tracker` is the key of a
/// [`Model::secret_tracker`].
pub(crate) fn forget(draft: &mut Draft, model: Model, tracker: &str) {
    let id = tracker.strip_prefix(&model.prefix(Kind::SecretTracker)).and_then(secret_of_key);
    let (Some(id), Some(unit)) = (id, last_id(tracker)) else { return };
    let key = model.secrets_consumed(unit);
    let mut consumed = draft.get(&key).unwrap_or_default();
    if consumed.remove(&id).is_none() {
        return;
    }
    // the removal of a unit that reads nothing looks for no document
    match consumed.is_empty() {
        true => draft.remove(&key),
        false => draft.put(&key, &consumed),
    }
}

/// Removes the secrets of a unit or an application that is removed, and what a unit reads. The janitor deletes the
/// documents.
pub(crate) fn remove_owner(draft: &mut Draft, model: Model, owner: Uuid) {
    let owned = draft.get(&model.secrets_of(owner)).unwrap_or_default();
    let consumed = draft.get(&model.secrets_consumed(owner)).unwrap_or_default();
    if owned.is_empty() && consumed.is_empty() {
        return;
    }
    draft.remove(&model.secrets_of(owner));
    draft.remove(&model.secrets_consumed(owner));
    let owned = owned.keys().flat_map(|id| {
        [model.secret(*id).text().to_owned(), model.secret_contents(*id), model.secret_trackers_of(*id)]
    });
    let consumed =
        consumed.iter().map(|(id, entry)| model.secret_tracker(*id, entry.revision, owner).text().to_owned());
    draft.put(&model.cleanup(owner), &owned.chain(consumed).collect());
}
