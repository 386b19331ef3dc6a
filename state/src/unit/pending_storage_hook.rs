//! The pending hook of a unit's storage (spec/uniter.md A.13).
//!
//! The view shows the instances that are attached to the unit; the unit stores for which of them storage-attached has
//! run, so that each hook runs once, also after the store was restored: an instance for which it ran and that the view
//! does not show any more is detached.

use super::chosen_operation::ChosenOperation;
use super::decision::{Act, Now, is_link_fresh};
use super::local::Local;
use super::snapshot::Snapshot;
use super::wait_causes::{wait, wait_cause, wait_for_link};
use crate::terms::cause::{Actor, Cause, Duty};
use crate::terms::operation::Hook;
use crate::terms::start_reason::StartReason;
use crate::terms::storage::{AttachedStorage, StorageEvent, StorageId};

/// The hook of an instance.
fn hook(id: &StorageId, storage: AttachedStorage, event: StorageEvent) -> Hook {
    Hook::Storage { id: id.clone(), storage, event }
}

/// The next storage-detaching: of an instance that the view does not show any more or shows as detaching; of all if
/// the unit is being removed.
fn detaching(local: &Local, view: &Snapshot, alive: bool) -> Option<Hook> {
    let is_kept = |id: &StorageId, known: &AttachedStorage| {
        let shown = view.storage.get(id).filter(|shown| shown.instance == known.instance);
        alive && shown.is_some_and(|shown| !shown.detaching)
    };
    let (id, known) = local.storage.iter().find(|(id, known)| !is_kept(id, known))?;
    Some(hook(id, known.clone(), StorageEvent::Detaching))
}

/// The next storage-attached.
fn attached(local: &Local, view: &Snapshot) -> Option<Hook> {
    view.storage.iter().filter(|(_, shown)| !shown.detaching).find_map(|(id, shown)| {
        if local.storage.get(id).is_some_and(|known| known.instance == shown.instance) {
            return None;
        }
        let (instance, kind, location) = (shown.instance, shown.kind, shown.location.clone()?);
        Some(hook(id, AttachedStorage { instance, kind, location }, StorageEvent::Attached))
    })
}

fn start(local: &Local, view: &Snapshot, now: &Now, hook: Hook, waits: &mut Vec<Cause>) -> Option<Act> {
    if !is_link_fresh(now) {
        wait_for_link(local, waits, now);
        return None;
    }
    ChosenOperation::hook(hook, StartReason::StorageChanged).map(|chosen| chosen.act(local, view, now))
}

/// Runs storage-attached before install, for all instances that the unit has been given: install waits for them.
pub(super) fn before_install(local: &Local, view: &Snapshot, now: &Now, alive: bool) -> Option<Act> {
    if !alive || local.installed || local.charm.is_none() {
        return None;
    }
    let mut waits = Vec::new();
    if let Some(hook) = detaching(local, view, alive).or_else(|| attached(local, view)) {
        let act = start(local, view, now, hook, &mut waits);
        return Some(act.unwrap_or_else(|| wait(None, waits)));
    }
    let missing = view.storage.iter().find(|(_, shown)| !shown.detaching && shown.location.is_none());
    let (id, _) = missing?;
    let duty = Duty::ProvideStorage { storage: id.clone() };
    let actor = Actor::MachineAgent(view.unit.machine.clone());
    Some(wait(None, vec![wait_cause(local, duty, actor)]))
}

/// Runs the next storage hook of an installed unit that is not being removed. Nothing waits for storage that is not
/// provided yet.
pub(super) fn storage_hook(
    local: &Local,
    view: &Snapshot,
    now: &Now,
    alive: bool,
    waits: &mut Vec<Cause>,
) -> Option<Act> {
    if !alive || !local.installed || local.follow_up.is_some() {
        return None;
    }
    let hook = detaching(local, view, alive).or_else(|| attached(local, view))?;
    start(local, view, now, hook, waits)
}

/// Runs storage-detaching for everything that is attached to a unit that is being removed, before all its other last
/// hooks.
pub(super) fn detach_all(local: &Local, view: &Snapshot, now: &Now, waits: &mut Vec<Cause>) -> Option<Act> {
    start(local, view, now, detaching(local, view, false)?, waits)
}

/// Whether a storage hook still has to run.
pub(super) fn is_due(local: &Local, view: &Snapshot, alive: bool, hook: &Hook) -> bool {
    let Hook::Storage { id, storage, event } = hook else { return true };
    match event {
        StorageEvent::Detaching => {
            local.storage.get(id).is_some_and(|known| known.instance == storage.instance)
        }
        StorageEvent::Attached => {
            let shown = view.storage.get(id).filter(|shown| shown.instance == storage.instance);
            alive && shown.is_some_and(|shown| !shown.detaching)
        }
    }
}
