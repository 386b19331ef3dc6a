//! Secrets of units and applications: what hooks write, what units read, and when something is due (spec/hook-tools.md
//! 2.6, spec/uniter.md A.14).
//!
//! A content is only ever sealed here: this crate has no key. Access is derived at every read: a secret whose owner is
//! gone does not exist, and a grant counts only while its relation exists, so that the end of a relation revokes it at
//! once. Writes of a hook are part of its record ([`apply`]); reading is a transition of its own ([`consume`]), because
//! the first read decides which revision the unit reads from then on, even if its hook fails later.

use crate::documents::draft::Draft;
use crate::documents::effective_life::Documents;
use crate::documents::prelude::{
    ConsumedSecretDoc, Model, OwnedSecretsDoc, RevisionDoc, SecretContentDoc, SecretDoc, SecretGrantDoc,
    SecretOwner, UnitDoc,
};
use crate::documents::refusal::Refusal;
use crate::operations::{leadership, session};
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::secret::{SecretLimit, SecretRefusal};
use crate::terms::secret::{
    CONSUMED_MAX, DESCRIPTION_BYTES_MAX, GRANTS_MAX, LABEL_BYTES_MAX, REVISIONS_MAX, SEALED_BYTES_MAX,
    SECRETS_MAX, SecretId, SecretOwnerKind, SecretReader,
};
use crate::unit::local::Local;
use crate::unit::record::DroppedWrite;
use crate::unit::secrets::{AccessChange, SecretRemoval, SecretWrite, SecretWrites};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which secret a unit reads, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretRead {
    /// The secret; none if only its label is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SecretId>,
    /// The label; with an id, the label that the unit gives the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether to return the newest revision, once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peek: bool,
    /// Whether to read the newest revision from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refresh: bool,
}

/// A sealed content that may be opened for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableSecret {
    /// The secret.
    pub id: SecretId,
    /// The revision.
    pub revision: u64,
    /// The content.
    pub content: SecretContentDoc,
}

/// The unit whose record is committed, and the facts of the record.
pub(crate) struct SecretWriter<'a> {
    /// The unit.
    pub unit: Uuid,
    /// Its document.
    pub doc: &'a UnitDoc,
    /// Its stored state before the record.
    pub local: &'a Local,
    /// The generation of the leadership in which the hook ran.
    pub leader_generation: Option<u64>,
    /// When the hook ended.
    pub at_ms: i64,
}

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

fn not_found(id: SecretId) -> Refusal {
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
fn labelled(draft: &mut Draft, model: Model, owner: Uuid, label: &str) -> Option<SecretId> {
    let owned = draft.get(&model.secrets_of(owner))?;
    owned.iter().find(|(_, other)| *other == label).map(|(id, _)| *id)
}

/// Returns the content that a unit reads. The first read fixes the revision that the unit reads from then on.
///
/// # Errors
/// If a newer agent has attached, there is no such secret, or the unit may not read it.
pub fn consume(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    epoch: u64,
    request: &SecretRead,
) -> Result<ReadableSecret, Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    let key = model.secrets_consumed(unit);
    let mut consumed = draft.get(&key).unwrap_or_default();
    let label = request.label.as_deref().unwrap_or_default();
    let id = match request.id {
        Some(id) => id,
        None => [unit, doc.application]
            .into_iter()
            .find_map(|owner| labelled(draft, model, owner, label))
            .or_else(|| consumed.iter().find(|(_, entry)| entry.label == label).map(|(id, _)| *id))
            .ok_or_else(|| SecretRefusal::UnknownConsumerLabel { label: label.to_owned() })?,
    };
    let secret = find(draft, model, id)?;
    if !may_read(draft, model, &secret, unit, &doc) {
        return Err(SecretRefusal::PermissionDenied.into());
    }
    let before = consumed.get(&id).cloned();
    let mut entry = before.clone().unwrap_or_default();
    if before.is_none() || request.refresh {
        entry.revision = secret.newest();
    }
    if request.id.is_some() && !label.is_empty() {
        if consumed.iter().any(|(other, entry)| *other != id && entry.label == label) {
            return Err(SecretRefusal::LabelExists { label: label.to_owned() }.into());
        }
        require_bytes(label, LABEL_BYTES_MAX)?;
        entry.label = label.to_owned();
    }
    let revision = if request.peek { secret.newest() } else { entry.revision };
    let content = draft
        .get(&model.secret_content(id, revision))
        .ok_or(SecretRefusal::RevisionNotFound { id, revision })?;
    if before.as_ref() != Some(&entry) {
        if before.is_none() && consumed.len() >= CONSUMED_MAX {
            return Err(SecretRefusal::TooMany { what: SecretLimit::Consumed, max: CONSUMED_MAX }.into());
        }
        track(draft, model, unit, id, before.map(|entry| entry.revision), entry.revision);
        consumed.insert(id, entry);
        draft.put(&key, &consumed);
    }
    Ok(ReadableSecret { id, revision, content })
}

/// Changes the index of the revision that a unit reads.
fn track(draft: &mut Draft, model: Model, unit: Uuid, id: SecretId, before: Option<u64>, now: u64) {
    if before == Some(now) {
        return;
    }
    if let Some(before) = before {
        draft.remove(&model.secret_tracker(id, before, unit));
    }
    draft.put(&model.secret_tracker(id, now, unit), &());
}

/// A secret with the changes of a record, before anything of it is stored.
struct ChangedSecret {
    id: SecretId,
    before: Option<SecretDoc>,
    /// None if the secret is removed.
    after: Option<SecretDoc>,
    content: Option<SecretContentDoc>,
    removed_revisions: Vec<u64>,
    tracks_latest: bool,
}

/// Applies the writes of a record to secrets: all of them, or none if one is refused. What belongs to a secret or a relation
/// that is removed is dropped.
///
/// # Errors
/// If the unit may not change the secret, or a limit would be exceeded.
pub(crate) fn apply(
    draft: &mut Draft,
    model: Model,
    writer: &SecretWriter,
    writes: &SecretWrites,
    ids: &mut dyn FnMut() -> Uuid,
    dropped: &mut Vec<DroppedWrite>,
) -> Result<(), Refusal> {
    let mut indexes: BTreeMap<Uuid, OwnedSecretsDoc> = BTreeMap::new();
    let mut changed = Vec::new();
    for (id, write) in writes {
        match changed_secret(draft, model, writer, (*id, write), &mut indexes)? {
            Some(secret) => changed.push(secret),
            None => dropped.push(DroppedWrite::RemovedSecret { secret: *id }),
        }
    }
    for secret in changed {
        store(draft, model, writer.unit, secret, ids);
    }
    for (owner, owned) in indexes {
        let key = model.secrets_of(owner);
        if draft.get(&key).unwrap_or_default() != owned {
            draft.put(&key, &owned);
        }
    }
    Ok(())
}

fn changed_secret(
    draft: &mut Draft,
    model: Model,
    writer: &SecretWriter,
    (id, write): (SecretId, &SecretWrite),
    indexes: &mut BTreeMap<Uuid, OwnedSecretsDoc>,
) -> Result<Option<ChangedSecret>, Refusal> {
    let stored = draft.get(&model.secret(id));
    let before = match (write.created, stored) {
        (Some(_), Some(_)) => return Err(SecretRefusal::Exists { id }.into()),
        (None, None) => return Ok(None),
        (_, stored) => stored,
    };
    let created_owner = |kind| match kind {
        SecretOwnerKind::Unit => Ok(SecretOwner { kind, id: writer.unit }),
        SecretOwnerKind::Application => Ok(SecretOwner { kind, id: writer.doc.application }),
        SecretOwnerKind::Model => Err(Refusal::from(SecretRefusal::PermissionDenied)),
    };
    let mut after = match (&before, write.created) {
        (Some(before), _) => before.clone(),
        (None, Some(kind)) => new_secret(created_owner(kind)?, writer.at_ms),
        (None, None) => return Ok(None),
    };
    require_owner(draft, model, writer, &after)?;
    let owner = after.owner.id;
    if !indexes.contains_key(&owner) {
        indexes.insert(owner, draft.get(&model.secrets_of(owner)).unwrap_or_default());
    }
    let owned = indexes.entry(owner).or_default();
    if write.removed == Some(SecretRemoval::All) {
        owned.remove(&id);
        let (content, removed_revisions) = (None, Vec::new());
        return Ok(Some(ChangedSecret {
            id,
            before,
            after: None,
            content,
            removed_revisions,
            tracks_latest: false,
        }));
    }
    if let Some(label) = &write.label {
        require_bytes(label, LABEL_BYTES_MAX)?;
        if !label.is_empty() && owned.iter().any(|(other, taken)| *other != id && taken == label) {
            return Err(SecretRefusal::LabelExists { label: label.clone() }.into());
        }
        after.label.clone_from(label);
    }
    owned.insert(id, after.label.clone());
    if owned.len() > SECRETS_MAX {
        return Err(SecretRefusal::TooMany { what: SecretLimit::Secrets, max: SECRETS_MAX }.into());
    }
    let content = change_metadata(&mut after, writer.unit, writer.at_ms, write)?;
    for change in &write.access {
        change_access(draft, model, writer.local, &mut after, change)?;
    }
    let mut removed_revisions = Vec::new();
    if let Some(SecretRemoval::Revisions(revisions)) = &write.removed {
        removed_revisions
            .extend(revisions.iter().filter(|revision| after.revisions.remove(revision).is_some()));
    }
    let is_empty = after.revisions.is_empty();
    if is_empty {
        owned.remove(&id);
    }
    let after = Some(after).filter(|_| !is_empty);
    Ok(Some(ChangedSecret {
        id,
        before,
        after,
        content,
        removed_revisions,
        tracks_latest: write.tracks_latest,
    }))
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

/// Requires that the unit owns the secret, or leads the application that does.
fn require_owner(
    draft: &mut Draft,
    model: Model,
    writer: &SecretWriter,
    secret: &SecretDoc,
) -> Result<(), Refusal> {
    let SecretWriter { unit, doc, .. } = *writer;
    if secret.owner.id == unit {
        return Ok(());
    }
    if secret.owner.id != doc.application {
        return Err(SecretRefusal::PermissionDenied.into());
    }
    match leadership::is_leader(draft, model, unit, doc, writer.leader_generation) {
        true => Ok(()),
        false => Err(SecretRefusal::NotLeader { unit: doc.name.clone() }.into()),
    }
}

/// Changes everything but the label and the readers. Returns the content of the new revision, if there is one.
pub(crate) fn change_metadata(
    secret: &mut SecretDoc,
    sealed_for: Uuid,
    at_ms: i64,
    write: &SecretWrite,
) -> Result<Option<SecretContentDoc>, Refusal> {
    secret.updated_ms = at_ms;
    if let Some(description) = &write.description {
        require_bytes(description, DESCRIPTION_BYTES_MAX)?;
        secret.description.clone_from(description);
    }
    if let Some(rotate) = write.rotate.filter(|rotate| Some(*rotate) != secret.rotate) {
        secret.rotate = Some(rotate);
        secret.rotation_due = false;
        secret.rotate_at_ms = rotate.interval_ms().map(|interval| at_ms.saturating_add(interval));
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
            secret
                .revisions
                .insert(secret.latest, RevisionDoc { created_ms: at_ms, ..RevisionDoc::default() });
            // the time at which an older revision has expired does not concern the new one
            secret.expire_at_ms = secret.expire_at_ms.filter(|expire_at| *expire_at > at_ms);
            Some(SecretContentDoc { sealed_for, sealed: sealed.clone() })
        }
    };
    if write.expire_at_ms.is_some() {
        secret.expire_at_ms = write.expire_at_ms;
        let newest = secret.newest();
        if let Some(revision) = secret.revisions.get_mut(&newest) {
            (revision.expired, revision.expiry_reported) = (false, false);
        }
    }
    Ok(content)
}

fn require_bytes(text: &str, max: usize) -> Result<(), Refusal> {
    if text.len() > max {
        return Err(SecretRefusal::TooMany { what: SecretLimit::TextBytes, max }.into());
    }
    Ok(())
}

/// Grants or revokes access. A grant in a relation that is removed changes nothing.
fn change_access(
    draft: &mut Draft,
    model: Model,
    local: &Local,
    secret: &mut SecretDoc,
    change: &AccessChange,
) -> Result<(), Refusal> {
    let uuid_of = |number: &RelationNumber| local.relations.get(number).map(|relation| relation.uuid);
    match change {
        AccessChange::Grant { relation, application, unit } => {
            let Some(relation) = uuid_of(relation) else { return Ok(()) };
            if draft.get(&model.relation(relation)).is_none() {
                return Ok(());
            }
            let (id, reader) = match unit {
                Some(unit) => (draft.get(&model.unit_name(unit)), SecretReader::Unit(unit.clone())),
                None => (
                    draft.get(&model.application_name(application)),
                    SecretReader::Application(application.clone()),
                ),
            };
            let Some(id) = id else { return Ok(()) };
            grant(secret, id, SecretGrantDoc { reader, relation: Some(relation) })
        }
        AccessChange::Revoke { relation, application, unit } => {
            let named =
                [application.clone().map(SecretReader::Application), unit.clone().map(SecretReader::Unit)];
            let scope = relation.as_ref().and_then(uuid_of);
            let by_scope = application.is_none() && unit.is_none() && scope.is_some();
            secret.grants.retain(|_, grant| {
                let is_named = named.iter().flatten().any(|reader| *reader == grant.reader);
                !(is_named || by_scope && grant.relation == scope)
            });
            Ok(())
        }
    }
}

/// Adds a grant.
pub(crate) fn grant(secret: &mut SecretDoc, reader: Uuid, grant: SecretGrantDoc) -> Result<(), Refusal> {
    secret.grants.insert(reader, grant);
    if secret.grants.len() > GRANTS_MAX {
        return Err(SecretRefusal::TooMany { what: SecretLimit::Grants, max: GRANTS_MAX }.into());
    }
    Ok(())
}

/// Stores a changed secret with its content and its timer.
fn store(draft: &mut Draft, model: Model, unit: Uuid, changed: ChangedSecret, ids: &mut dyn FnMut() -> Uuid) {
    let ChangedSecret { id, before, after, content, removed_revisions, tracks_latest } = changed;
    let Some(after) = after else {
        remove(draft, model, id, before.as_ref(), ids());
        return;
    };
    put(draft, model, id, before.as_ref(), &after);
    if let Some(content) = content {
        draft.put(&model.secret_content(id, after.latest), &content);
    }
    for revision in removed_revisions {
        draft.remove(&model.secret_content(id, revision));
    }
    if tracks_latest {
        let key = model.secrets_consumed(unit);
        let mut consumed = draft.get(&key).unwrap_or_default();
        let entry: &mut ConsumedSecretDoc = consumed.entry(id).or_default();
        let tracked = Some(entry.revision).filter(|revision| *revision > 0);
        entry.revision = after.newest();
        track(draft, model, unit, id, tracked, entry.revision);
        draft.put(&key, &consumed);
    }
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
