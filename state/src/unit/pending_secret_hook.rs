//! The pending hook of a unit's secrets (spec/uniter.md A.14).
//!
//! The controller decides what is due and stores what has been reported, and the view shows the rest; the unit stores
//! only the revision of the last change (`Local::secrets_revision`). A secret hook is a conditional record, so that no other
//! hook starts before the controller has stored that it ran. Until the view contains this commit, it still shows the hook as
//! due: `resolve` waits for it.

use super::chosen_operation::ChosenOperation;
use super::decision::{Act, Now, is_link_fresh};
use super::local::Local;
use super::secrets::{ConsumedSecretView, OwnedSecretView};
use super::snapshot::Snapshot;
use super::wait_causes::wait_for_link;
use crate::terms::cause::Cause;
use crate::terms::operation::Hook;
use crate::terms::secret::{SecretEvent, SecretId, SecretOwnerKind};
use crate::terms::start_reason::StartReason;

/// Returns the act that runs the next secret hook: expired, rotate, changed, remove, each by the order of the ids.
pub(super) fn secret_hook(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !alive || !local.installed || local.follow_up.is_some() {
        return None;
    }
    let order = [SecretEvent::Expired, SecretEvent::Rotate, SecretEvent::Changed, SecretEvent::Remove];
    let hook = order.into_iter().find_map(|event| pending(view, now, event))?;
    if !is_link_fresh(now) {
        wait_for_link(local, waits, now);
        return None;
    }
    ChosenOperation::hook(hook, StartReason::SecretDue).map(|chosen| chosen.act(local, view, now))
}

fn pending(view: &Snapshot, now: &Now, event: SecretEvent) -> Option<Hook> {
    view.secrets.iter().find_map(|(id, secret)| match event {
        SecretEvent::Changed => {
            secret.consumed.as_ref().filter(|consumed| consumed.changed).map(|consumed| {
                let (label, revision) = (consumed.label.clone(), consumed.latest);
                Hook::Secret { secret: *id, label, revision, event, leader_only: false }
            })
        }
        SecretEvent::Expired | SecretEvent::Rotate | SecretEvent::Remove => {
            let owned = secret.owned.as_ref()?;
            owner_hook(*id, owned, secret.consumed.as_ref(), now, event)
        }
    })
}

fn owner_hook(
    id: SecretId,
    owned: &OwnedSecretView,
    consumed: Option<&ConsumedSecretView>,
    now: &Now,
    event: SecretEvent,
) -> Option<Hook> {
    let leader_only = owned.secret.owner == SecretOwnerKind::Application;
    if leader_only && now.leader_generation.is_none() {
        return None;
    }
    let revision = match event {
        SecretEvent::Rotate => owned.rotation_due.then_some(owned.secret.revision)?,
        SecretEvent::Expired => *owned.expired.first()?,
        SecretEvent::Remove => *owned.obsolete.first()?,
        SecretEvent::Changed => return None,
    };
    // the label by which the unit refers to the secret, else that of the owner
    let own_label = consumed.map(|consumed| &consumed.label).filter(|label| !label.is_empty());
    let label = own_label.unwrap_or(&owned.secret.label).clone();
    Some(Hook::Secret { secret: id, label, revision, event, leader_only })
}

/// Whether the view still shows the hook as due.
pub(super) fn is_due(view: &Snapshot, hook: &Hook) -> bool {
    let Hook::Secret { secret, revision, event, .. } = hook else { return true };
    let Some(shown) = view.secrets.get(secret) else { return false };
    match event {
        SecretEvent::Changed => shown.consumed.as_ref().is_some_and(|consumed| consumed.changed),
        SecretEvent::Rotate => shown.owned.as_ref().is_some_and(|owned| owned.rotation_due),
        SecretEvent::Expired => shown.owned.as_ref().is_some_and(|owned| owned.expired.contains(revision)),
        SecretEvent::Remove => shown.owned.as_ref().is_some_and(|owned| owned.obsolete.contains(revision)),
    }
}
