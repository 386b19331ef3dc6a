//! Secrets of users: added, changed, granted and removed by requests (spec/clients.md 3.2 rows 28 to 30).
//!
//! The model owns them, and an application reads one only after it was granted, until that is revoked. With auto-prune
//! a revision is removed as soon as no unit reads it and a newer one exists. Called by the handlers of users.

use crate::documents::document_reads::Documents;
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, SecretContentDoc, SecretDoc, SecretGrantDoc, SecretOwner};
use crate::documents::refusal::Refusal;
use crate::lifecycle::model::require_alive;
use crate::lifecycle::secret::{
    self, ChangeTime, change_metadata, count_bytes, new_secret, not_found, prune, put, remove_revision,
    require_room, set_label,
};
use crate::terms::names::Uuid;
use crate::terms::refusal::secret::SecretRefusal;
use crate::terms::secret::{SecretId, SecretOwnerKind, SecretReader, SecretUri};
use crate::unit::secrets::SecretWrite;

/// For whom the controller seals the contents of users: no unit.
pub const SEALED_FOR_USERS: Uuid = Uuid(0);
/// The most revisions that one change looks at for auto-prune, the oldest first: one read each. Later changes, and the
/// units that begin to read a newer revision, remove the others.
const PRUNED_MAX: usize = 40;

/// The secret with this URI, or the user's secret with this name.
///
/// # Errors
/// If there is none.
pub fn find(
    documents: &mut impl Documents,
    model: Model,
    text: &str,
) -> Result<(SecretId, SecretDoc), Refusal> {
    let uri = SecretUri::parse(text).ok().filter(|uri| uri.model.is_none_or(|of| of == model.0));
    if let Some(SecretUri { id, .. }) = uri
        && let Ok(secret) = secret::find(documents, model, id)
    {
        return Ok((id, secret));
    }
    let owned = documents.document(&model.secrets_of(model.0)).unwrap_or_default();
    let id = owned.iter().find(|(_, secret)| secret.label == text && !text.is_empty()).map(|(id, _)| *id);
    let id = id.ok_or_else(|| not_found(text))?;
    Ok((id, secret::find(documents, model, id)?))
}

/// The sealed content of a revision, or of the newest one, of the secret with this URI or name.
///
/// # Errors
/// If there is no such secret or revision.
pub fn find_content(
    documents: &mut impl Documents,
    model: Model,
    text: &str,
    revision: Option<u64>,
) -> Result<(SecretId, SecretContentDoc), Refusal> {
    let (id, secret) = find(documents, model, text)?;
    let revision = revision.unwrap_or_else(|| secret.newest());
    let content = documents.document(&model.secret_content(id, revision));
    Ok((id, content.ok_or(SecretRefusal::RevisionNotFound { id, revision })?))
}

/// A secret that users may change.
fn find_own(draft: &mut Draft, model: Model, id: SecretId) -> Result<SecretDoc, Refusal> {
    let secret = secret::find(draft, model, id)?;
    match secret.owner.kind {
        SecretOwnerKind::Model => Ok(secret),
        SecretOwnerKind::Unit | SecretOwnerKind::Application => Err(SecretRefusal::OfCharm { id }.into()),
    }
}

/// Adds a secret with its name (the label), its description and its content.
///
/// # Errors
/// If the name is taken, there is no content, a limit would be exceeded, or the model is not Alive.
pub fn add(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    write: &SecretWrite,
    now_ms: i64,
) -> Result<(), Refusal> {
    require_alive(draft, model)?;
    if draft.get(&model.secret(id)).is_some() {
        return Err(SecretRefusal::Exists { id }.into());
    }
    if write.sealed.is_none() {
        return Err(SecretRefusal::Empty.into());
    }
    let owner = SecretOwner { kind: SecretOwnerKind::Model, id: model.0 };
    let changed = ChangedSecret { id, before: None, after: new_secret(owner, now_ms) };
    change(draft, model, changed, write, now_ms)
}

/// Changes a secret: its name, its description, its content, and whether it is pruned. What is `None` is not changed.
///
/// # Errors
/// If a charm owns the secret, the name is taken, or a limit would be exceeded.
pub fn update(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    write: &SecretWrite,
    auto_prune: Option<bool>,
    now_ms: i64,
) -> Result<(), Refusal> {
    let before = find_own(draft, model, id)?;
    let after = SecretDoc { auto_prune: auto_prune.unwrap_or(before.auto_prune), ..before.clone() };
    let changed = ChangedSecret { id, before: Some(&before), after };
    change(draft, model, changed, write, now_ms)
}

/// A secret before and after a change; it is added if there is nothing before.
struct ChangedSecret<'a> {
    id: SecretId,
    before: Option<&'a SecretDoc>,
    after: SecretDoc,
}

fn change(
    draft: &mut Draft,
    model: Model,
    ChangedSecret { id, before, mut after }: ChangedSecret,
    write: &SecretWrite,
    now_ms: i64,
) -> Result<(), Refusal> {
    let index = model.secrets_of(model.0);
    let mut owned = draft.get(&index).unwrap_or_default();
    let indexed = owned.clone();
    set_label(&mut owned, id, &mut after, write.label.as_deref())?;
    let content =
        change_metadata(&mut after, SEALED_FOR_USERS, ChangeTime::new(draft, model, now_ms), write)?;
    count_bytes(&mut owned, id, &after);
    require_room(&owned, 0)?;
    if let Some(content) = content {
        draft.put(&model.secret_content(id, after.latest), &content);
    }
    if owned != indexed {
        draft.put(&index, &owned);
    }
    let oldest: Vec<u64> = after.revisions.keys().copied().take(PRUNED_MAX).collect();
    for revision in oldest {
        prune(draft, model, id, &mut after, revision);
    }
    put(draft, model, id, before, &after);
    Ok(())
}

/// Lets applications read a secret.
///
/// # Errors
/// If a charm owns the secret, an application does not exist, or the secret has too many readers.
pub fn grant(draft: &mut Draft, model: Model, id: SecretId, applications: &[String]) -> Result<(), Refusal> {
    let before = find_own(draft, model, id)?;
    let mut after = before.clone();
    for name in applications {
        let application = draft
            .get(&model.application_name(name))
            .ok_or_else(|| SecretRefusal::UnknownReader { name: name.clone() })?;
        let reader = SecretReader::Application(name.clone());
        secret::grant(&mut after, application, SecretGrantDoc { reader, relation: None })?;
    }
    put(draft, model, id, Some(&before), &after);
    Ok(())
}

/// Ends the access of applications to a secret at once. An application without access changes nothing.
///
/// # Errors
/// If a charm owns the secret, or an application neither exists nor has access.
pub fn revoke(draft: &mut Draft, model: Model, id: SecretId, applications: &[String]) -> Result<(), Refusal> {
    let before = find_own(draft, model, id)?;
    let mut after = before.clone();
    for name in applications {
        let granted = after.grants.len();
        after.grants.retain(|_, grant| grant.reader != SecretReader::Application(name.clone()));
        if after.grants.len() == granted && draft.get(&model.application_name(name)).is_none() {
            return Err(SecretRefusal::UnknownReader { name: name.clone() }.into());
        }
    }
    put(draft, model, id, Some(&before), &after);
    Ok(())
}

/// Removes a secret, or one revision of it; with its only revision the secret is removed. `cleanup`: the id of what is
/// left for the janitor.
///
/// # Errors
/// If a charm owns the secret, or the revision does not exist.
pub fn remove(
    draft: &mut Draft,
    model: Model,
    id: SecretId,
    revision: Option<u64>,
    cleanup: Uuid,
) -> Result<(), Refusal> {
    let before = find_own(draft, model, id)?;
    let mut after = before.clone();
    if let Some(revision) = revision {
        if !remove_revision(draft, model, id, &mut after, revision) {
            return Err(SecretRefusal::RevisionNotFound { id, revision }.into());
        }
        if !after.revisions.is_empty() {
            put(draft, model, id, Some(&before), &after);
            return Ok(());
        }
    }
    let index = model.secrets_of(model.0);
    let mut owned = draft.get(&index).unwrap_or_default();
    owned.remove(&id);
    draft.put(&index, &owned);
    secret::remove(draft, model, id, Some(&before), cleanup);
    Ok(())
}
