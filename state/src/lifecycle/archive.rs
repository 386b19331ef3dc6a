//! The use of charm archives and of the files of resources, and their removal once nothing uses them.
//!
//! An application uses the archive that is assigned to it, those that were assigned recently, and the files of its
//! resources; a unit uses the archive that it runs. Each use is a document of its own below the digest of the archive, written in the transaction that
//! starts the use: an archive may be removed when it has no use (design 5). A use that has ended is deleted later by
//! the janitor, not with its application or unit, so that no removal becomes larger.
//!
//! A deployment reads the archive and writes a use; the removal of an archive reads that it has no uses and deletes it.
//! If both run concurrently, the second to commit conflicts with the first and is repeated.

use crate::charm::Charm;
use crate::documents::draft::{Draft, Reader, look};
use crate::documents::prelude::{ArchiveDoc, ArchiveUse, GLOBAL, Model, ReplicaDoc};
use crate::terms::names::Uuid;
use std::sync::Arc;

/// Uses that one transaction examines, with two reads and at most one delete each: 60 reads and 30 writes, a small part of
/// [`READS_MAX`](crate::documents::draft::READS_MAX) and [`WRITES_MAX`](crate::documents::draft::WRITES_MAX).
pub const USES_PER_BATCH: usize = 30;

/// Registers an uploaded file by its digest. `charm`: what the archive of a charm declares; none for the file of a
/// resource. A digest that is registered already keeps its charm.
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
    let runs = || look(reader, &model.replica(*owner), |unit| runs_archive(unit, sha256));
    !assigns.unwrap_or(false) && !runs().unwrap_or(false)
}

/// Whether the unit of a replica runs this archive.
fn runs_archive(unit: &ReplicaDoc, sha256: &str) -> bool {
    unit.assigned_archive.as_deref() == Some(sha256)
}

/// Examines the first [`USES_PER_BATCH`] of these uses, and deletes those that have ended.
pub fn delete_ended_uses(draft: &mut Draft, uses: &[ArchiveUse]) {
    for archive_use in uses.iter().take(USES_PER_BATCH) {
        let ArchiveUse { sha256, model, owner } = archive_use;
        let charm = draft.get(&model.application_charm(*owner));
        let unit = draft.get(&model.replica(*owner));
        if !charm.is_some_and(|charm| charm.uses(sha256))
            && !unit.is_some_and(|unit| runs_archive(&unit, sha256))
        {
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
