//! Applies the changes of secrets in the record of a unit (spec/hook-tools.md 2.6, spec/uniter.md A.14).
//!
//! The writes of a hook are part of its record: all of them are applied, or none if one is refused. The record of a
//! secret hook removes the mark because of which it ran, so that it runs once. Called by the commit of records.

use crate::documents::draft::Draft;
use crate::documents::prelude::{
    ConsumedSecretDoc, Model, OwnedSecretsDoc, SecretContentDoc, SecretDoc, SecretGrantDoc, SecretOwner,
    UnitDoc,
};
use crate::documents::refusal::Refusal;
use crate::lifecycle::leadership;
use crate::lifecycle::model::model_time_ms;
use crate::lifecycle::secret::{
    ChangeTime, change_metadata, count_bytes, grant, new_secret, put, remove, require_room, set_label, track,
};
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{RotatePolicy, SecretEvent, SecretId, SecretOwnerKind, SecretReader};
use crate::unit::local::Local;
use crate::unit::record::DroppedWrite;
use crate::unit::secrets::{AccessChange, SecretRemoval, SecretWrite, SecretWrites};
use std::collections::BTreeMap;

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

/// A secret with the changes of a record, before anything of it is stored.
struct ChangedSecret {
    id: SecretId,
    before: Option<SecretDoc>,
    /// None if the secret is removed.
    after: Option<SecretDoc>,
    content: Option<SecretContentDoc>,
    removed_revisions: Vec<u64>,
    refreshed: bool,
}

/// Applies the writes of a record to secrets: all of them, or none if one is refused. What belongs to a secret or a
/// relation that is removed is dropped.
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
        match changed_secret(draft, model, writer, *id, write, &mut indexes)? {
            Some(secret) => changed.push(secret),
            None => dropped.push(DroppedWrite::RemovedSecret { secret: *id }),
        }
    }
    for owned in indexes.values() {
        require_room(owned, 0)?;
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
    id: SecretId,
    write: &SecretWrite,
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
    let owned =
        indexes.entry(owner).or_insert_with(|| draft.get(&model.secrets_of(owner)).unwrap_or_default());
    if write.removed == Some(SecretRemoval::All) {
        owned.remove(&id);
        let (content, removed_revisions) = (None, Vec::new());
        return Ok(Some(ChangedSecret {
            id,
            before,
            after: None,
            content,
            removed_revisions,
            refreshed: false,
        }));
    }
    set_label(owned, id, &mut after, write.label.as_deref())?;
    let content =
        change_metadata(&mut after, writer.unit, ChangeTime::new(draft, model, writer.at_ms), write)?;
    for change in &write.access {
        change_access(draft, model, writer.local, &mut after, change)?;
    }
    let mut removed_revisions = Vec::new();
    if let Some(SecretRemoval::Revisions(revisions)) = &write.removed {
        removed_revisions
            .extend(revisions.iter().filter(|revision| after.revisions.remove(revision).is_some()));
    }
    let is_empty = after.revisions.is_empty();
    match is_empty {
        true => drop(owned.remove(&id)),
        false => count_bytes(owned, id, &after),
    }
    let after = Some(after).filter(|_| !is_empty);
    Ok(Some(ChangedSecret { id, before, after, content, removed_revisions, refreshed: write.refreshed }))
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

/// Stores a changed secret with its content and its timer.
fn store(draft: &mut Draft, model: Model, unit: Uuid, changed: ChangedSecret, ids: &mut dyn FnMut() -> Uuid) {
    let ChangedSecret { id, before, after, content, removed_revisions, refreshed } = changed;
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
    if refreshed {
        let key = model.secrets_consumed(unit);
        let mut consumed = draft.get(&key).unwrap_or_default();
        let entry: &mut ConsumedSecretDoc = consumed.entry(id).or_default();
        let tracked = Some(entry.revision).filter(|revision| *revision > 0);
        entry.revision = after.newest();
        track(draft, model, unit, id, tracked, entry.revision);
        draft.put(&key, &consumed);
    }
}

/// After how long secret-rotate and secret-expired run again, as in Juju, if the charm has neither created a revision nor
/// removed the expired one: its unit could not act, for example because the relation that it needs was missing.
pub(crate) const SECRET_HOOK_AGAIN_MS: i64 = 5 * 60_000;

/// A secret hook that has run.
pub(crate) struct EndedSecretHook {
    pub secret: SecretId,
    /// The revision for which it ran; of secret-rotate the newest one when it started.
    pub revision: u64,
    pub event: SecretEvent,
    /// The time of the controller.
    pub now_ms: i64,
}

/// Stores that a secret hook of the unit has run, so that it does not run again now. Nothing is stored for a hook that was
/// not due, or of another owner: the record of a unit that lost the leadership meanwhile changes nothing, and the leader
/// runs the hook again. What the hook has written must be in the draft.
pub(crate) fn hook_done(draft: &mut Draft, model: Model, writer: &SecretWriter, ended: &EndedSecretHook) {
    let EndedSecretHook { secret: id, revision, event, now_ms } = *ended;
    if event == SecretEvent::Changed {
        let key = model.secrets_consumed(writer.unit);
        let mut consumed = draft.get(&key).unwrap_or_default();
        if let Some(entry) = consumed.get_mut(&id).filter(|entry| entry.reported < revision) {
            entry.reported = revision;
            draft.put(&key, &consumed);
        }
        return;
    }
    let Some(before) = draft.get(&model.secret(id)) else { return };
    if require_owner(draft, model, writer, &before).is_err() {
        return;
    }
    let (mut after, newest) = (before.clone(), before.newest());
    match event {
        SecretEvent::Rotate => {
            let Some(due_ms) = before.rotate_at_ms.filter(|_| before.rotation_due) else { return };
            after.rotation_due = false;
            let interval = after.rotate.and_then(RotatePolicy::interval_ms);
            // the clock of the unit is not trusted: within an interval of when the controller found it due
            let now_ms = ChangeTime::new(draft, model, writer.at_ms).model_ms;
            let (has_rotated, ended_ms) = (newest > revision, model_time_ms(draft, model, ended.now_ms));
            let next_ms = |interval: i64| {
                let (at_ms, wait_ms) =
                    if has_rotated { (now_ms, interval) } else { (ended_ms, SECRET_HOOK_AGAIN_MS) };
                at_ms.clamp(due_ms, due_ms.saturating_add(interval)).saturating_add(wait_ms)
            };
            after.rotate_at_ms = interval.map(next_ms);
        }
        SecretEvent::Expired => {
            if let Some(revision) = after.revisions.get_mut(&revision).filter(|revision| revision.expired) {
                let now_ms = model_time_ms(draft, model, now_ms);
                revision.expire_again_ms = Some(now_ms.saturating_add(SECRET_HOOK_AGAIN_MS));
            }
        }
        SecretEvent::Remove => {
            if let Some(obsolete) = after.revisions.get_mut(&revision).filter(|_| revision < newest) {
                obsolete.obsolete_reported = true;
            }
        }
        SecretEvent::Changed => {}
    }
    put(draft, model, id, Some(&before), &after);
}
