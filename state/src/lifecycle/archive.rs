//! The use of charm archives and of the files of resources, and their removal once nothing uses them.
//!
//! An application uses the archive that is assigned to it, those that were assigned recently, and the files of its
//! resources; a unit uses the one
//! that it runs. Each use is a document of its own below the digest of the archive, written in the transaction that
//! starts the use: an archive may be removed when it has no use (design 5). A use that has ended is deleted later by
//! the janitor, not with its application or unit, so that no removal becomes larger.
//!
//! A deployment reads the archive and writes a use; the removal of an archive reads that it has no uses and deletes it.
//! If both run concurrently, the second to commit conflicts with the first and is repeated.

use crate::charm::Charm;
use crate::documents::draft::{Draft, Reader, look};
use crate::documents::prelude::{ArchiveDoc, ArchiveUse, GLOBAL, Model};
use crate::terms::names::Uuid;
use std::sync::Arc;

/// Uses that one transaction examines, with three reads each: 90, below the 100 of a transaction.
pub const USES_PER_BATCH: usize = 30;

/// Registers an uploaded archive by its digest. A digest that is registered already keeps its charm.
pub fn register(draft: &mut Draft, sha256: &str, charm: Option<Charm>, bytes: u64) {
    // Recorded as read: the janitor may be removing it.
    let known = draft.get(&GLOBAL.archive(sha256));
    if known.is_none_or(|known| known.charm.is_none() && charm.is_some()) {
        draft.put(&GLOBAL.archive(sha256), &ArchiveDoc { charm: charm.map(Arc::new), bytes });
    }
}

/// Records that an application or a unit uses an archive.
pub(crate) fn record_use(draft: &mut Draft, model: Model, owner: Uuid, sha256: &str) {
    draft.put(&GLOBAL.archive_use(&ArchiveUse { sha256: sha256.to_owned(), model, owner }), &());
}

/// Whether a use has ended. Only for choosing candidates: [`delete_ended_uses`] decides.
pub fn has_ended(reader: &dyn Reader, archive_use: &ArchiveUse) -> bool {
    let ArchiveUse { sha256, model, owner } = archive_use;
    let assigns = look(reader, &model.application_charm(*owner), |charm| charm.uses(sha256));
    let runs = || look(reader, &model.replica(*owner), |unit| unit.assigned_archive.as_ref() == Some(sha256));
    !assigns.unwrap_or(false) && !runs().unwrap_or(false)
}

/// Deletes those of these uses that have ended, at most [`USES_PER_BATCH`] at a time.
pub fn delete_ended_uses(draft: &mut Draft, uses: &[ArchiveUse]) {
    for archive_use in uses.iter().take(USES_PER_BATCH) {
        let ArchiveUse { sha256, model, owner } = archive_use;
        let charm = draft.get(&model.application_charm(*owner));
        let runs = draft.get(&model.replica(*owner)).and_then(|replica| replica.assigned_archive);
        if !charm.is_some_and(|charm| charm.uses(sha256)) && runs.as_ref() != Some(sha256) {
            draft.remove(&GLOBAL.archive_use(archive_use));
        }
    }
}

/// Removes an archive that nothing uses. Returns whether it is absent now: its file may be deleted then.
pub fn remove_unused(draft: &mut Draft, sha256: &str) -> bool {
    let key = GLOBAL.archive(sha256);
    if draft.get(&key).is_none() {
        return true;
    }
    let is_unused = draft.any_key(&GLOBAL.archive_uses(sha256), &[]).is_none();
    if is_unused {
        draft.remove(&key);
    }
    is_unused
}
