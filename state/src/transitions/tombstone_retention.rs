//! The retention of the tombstones of removed entities.
//!
//! A tombstone is the evidence on which an agent tears down a removed entity (design 7), so it is kept until that has
//! happened. The tombstone of a unit is kept until the agent of its machine has confirmed that no folder of the unit is
//! left, or until the machine is removed, whose own tombstone covers its units. Of all other tombstones, the newest
//! [`TOMBSTONES_MAX`] of each model are kept: they answer repeated requests, and they tell the provisioner that the
//! machine of an instance was removed. Nothing is lost without them: an agent whose machine was removed while the agent
//! was away is told so by its retired token (`documents::token`), and an instance whose machine is unknown is kept
//! unless the harvest mode of the model includes those.

use crate::documents::draft::{Draft, Reader, read};
use crate::documents::prelude::{Model, TombstoneDoc};
use crate::terms::names::Uuid;

/// Tombstones kept per model that are no longer needed as evidence: some 200 bytes each, 200 KiB. A request whose
/// response was lost is repeated within seconds, in which far fewer entities are removed.
pub const TOMBSTONES_MAX: usize = 1_000;
/// Tombstones deleted by one transaction, with two reads and at most one delete each: 80 reads and 40 writes, a small
/// part of [`READS_MAX`](crate::documents::draft::READS_MAX) and [`WRITES_MAX`](crate::documents::draft::WRITES_MAX).
pub const TOMBSTONES_PER_BATCH: usize = 40;

/// Whether no agent needs a tombstone as evidence any more: what [`may_be_deleted`] and [`delete`] decide.
/// `is_recall_open` is whether the recall of the unit is still to be confirmed.
fn is_expendable(is_recall_open: bool) -> bool {
    !is_recall_open
}

/// Whether the tombstone of an entity may be deleted. Only for choosing candidates: [`delete`] decides.
pub fn may_be_deleted(reader: &dyn Reader, model: Model, id: Uuid, tombstone: &TombstoneDoc) -> bool {
    let recall = tombstone.machine.and_then(|machine| read(reader, &model.recall(machine, id)));
    is_expendable(recall.is_some())
}

/// Deletes those of these tombstones that are no longer needed as evidence, at most [`TOMBSTONES_PER_BATCH`] at a time.
pub fn delete(draft: &mut Draft, model: Model, ids: &[Uuid]) {
    for id in ids.iter().take(TOMBSTONES_PER_BATCH) {
        let Some(tombstone) = draft.get(&model.tombstone(*id)) else { continue };
        let recall = tombstone.machine.and_then(|machine| draft.get(&model.recall(machine, *id)));
        if is_expendable(recall.is_some()) {
            draft.remove(&model.tombstone(*id));
        }
    }
}

/// Records that no folder of a removed unit is left on the machine, as its agent reports. Repeating the request changes
/// nothing; it has no effect for a unit that was not removed from this machine.
pub fn confirm_recall(draft: &mut Draft, model: Model, machine: Uuid, unit: Uuid) {
    let recall = model.recall(machine, unit);
    if draft.get(&recall).is_some() {
        draft.remove(&recall);
    }
}
