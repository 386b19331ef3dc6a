//! Makes the attachments of a unit in a restored store those that the unit has (spec/uniter.md A.13).
//!
//! A unit stores for which instances it has run storage-attached and not storage-detaching, and runs each hook once. A
//! restored store may lack either hook:
//!
//! 1. A backup is made, the unit runs storage-detaching, and the backup is restored. No hook would ever end the attachment:
//!    the unit would detach it without end, or could never be Dead (sim 1795737157082). So the attachment ends here if
//!    the unit was to detach it; otherwise it is provided once more, and the unit runs storage-attached again.
//! 2. A backup is made, the unit runs storage-attached, and the backup is restored. The store would show the content as
//!    unused, and it would be deleted if the unit is removed by force.
//!
//! Part of a [`resync`](crate::restore::resync), in one batch of its own: it reads and writes two indexes and 16 instances
//! at most.

use crate::documents::draft::Draft;
use crate::documents::effective_life;
use crate::documents::prelude::{AttachmentDoc, Model, StorageDoc};
use crate::lifecycle::storage::{self, StorageOwner};
use crate::terms::life::Life;
use crate::terms::storage::{AttachedStorage, StorageId};
use std::collections::BTreeMap;

/// Applies the storage that a unit has published: `known` are the instances for which it has run storage-attached and not
/// storage-detaching.
pub(super) fn apply(
    draft: &mut Draft,
    model: Model,
    unit: StorageOwner,
    known: &BTreeMap<StorageId, AttachedStorage>,
    now_ms: i64,
) {
    let is_ending = effective_life::unit_life_of(draft, model, unit.id, unit.doc) != Life::Alive;
    for id in draft.get(&model.unit_storage(unit.id)).unwrap_or_default() {
        let Some(storage) = draft.get(&model.storage(&id)) else { continue };
        let instance = storage.uuid;
        let Some(attachment) = &storage.attachment else { continue };
        if known.get(&id).is_some_and(|known| known.instance == instance) {
            storage::record_attached(draft, model, unit.id, &id, instance);
        } else if is_ending && !attachment.attached {
            // it ends with the unit, which has never used it
        } else if is_ending || storage.is_detaching() {
            storage::record_detached(draft, model, unit, &id, instance, now_ms);
        } else {
            // its machine may have released it
            let attachment = AttachmentDoc { location: None, attached: false, ..attachment.clone() };
            draft.put(&model.storage(&id), &StorageDoc { attachment: Some(attachment), ..storage });
        }
    }
}
