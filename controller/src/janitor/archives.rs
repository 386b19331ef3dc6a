//! Removes charm archives and files of resources that nothing uses; both are called archives here.
//!
//! An archive is removed when it has had no use for [`ARCHIVE_GRACE_MS`] (`state::lifecycle::archive`), and no client
//! has uploaded it or looked it up in that time: a client that has received the answer that an archive is stored is
//! about to deploy it.
//!
//! The order is: 1. the document is removed, in a transaction that conflicts with a concurrent deployment; 2. the file
//! is deleted. A crash in between leaves a file without a document, which a later sweep deletes. An upload stores the
//! file first and the document second. While an upload stores its file and its document, it holds the lock of
//! `Controller::archives` shared; while the janitor removes a document and its file, it holds the lock exclusively. A
//! lookup restarts the grace period under the shared lock, so that the janitor cannot remove an archive
//! that was just reported as stored. Controllers that share files have no lock in common: each upload and lookup changes the
//! revision of the file, which restarts the grace period in every janitor, and the deletion of a file compares it.

use super::batch::log_and_skip;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::{Draft, Revision};
use state::documents::prelude::{ArchiveUse, GLOBAL, KeyParts, Kind};
use state::lifecycle::archive::{self, USES_PER_BATCH};
use std::collections::BTreeMap;

/// How long an archive that nothing uses is kept: an hour, so that `pintle deploy` of the same charm soon after
/// `pintle remove-application` needs no upload.
pub const ARCHIVE_GRACE_MS: u64 = 60 * 60 * 1000;
/// Uses that one sweep reads: some 250 bytes and two reads each.
const USES_PER_SWEEP: usize = 1_000;
/// How often all uses are read in one grace period: every six minutes.
const SCANS_PER_GRACE: u64 = 10;

/// The progress through the uses of all archives.
#[derive(Default)]
pub(super) struct ArchiveScan {
    /// The key of the last use that was read; empty if none or all were read.
    after: String,
    /// When the next pass through the uses starts, on the monotonic clock.
    next_ms: u64,
}

/// Deletes the ended uses of one page, and removes the archives that have had no use for `grace_ms`. An archive may be
/// removed later than that, because a pass through all uses starts only [`SCANS_PER_GRACE`] times in that period.
pub(super) async fn sweep<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    scan: &mut ArchiveScan,
    grace_ms: u64,
) -> Result<(), ApiError> {
    let now_ms = controller.environment.monotonic_ms();
    if scan.after.is_empty() && now_ms < scan.next_ms {
        return Ok(());
    }
    let from = std::mem::take(&mut scan.after);
    let page = controller.read_available(move |reader| {
        let page = reader.scan(&GLOBAL.prefix(Kind::ArchiveUse), &from, USES_PER_SWEEP);
        let last = page.last().filter(|_| page.len() == USES_PER_SWEEP).map(|last| last.key.clone());
        let uses = page.iter().filter_map(|stored| ArchiveUse::of_key(&stored.key));
        (
            uses.filter(|archive_use| archive::has_ended(reader, archive_use)).collect::<Vec<_>>(),
            last.unwrap_or_default(),
        )
    });
    let (ended, last) = page.await;
    scan.after = last;
    scan.next_ms = now_ms + grace_ms / SCANS_PER_GRACE;
    for batch in ended.chunks(USES_PER_BATCH) {
        if !delete_ended_uses(controller, batch).await? && batch.len() > 1 {
            // One by one, so that a damaged document does not prevent the deletion of the other uses.
            for archive_use in batch {
                delete_ended_uses(controller, std::slice::from_ref(archive_use)).await?;
            }
        }
    }
    let files = controller.environment.stored_files().await;
    let unused = controller.read_available(move |reader| {
        let registered = reader.scan(&GLOBAL.prefix(Kind::Archive), "", usize::MAX);
        let digest = |key: &str| KeyParts::of(key).map(|parts| (parts.rest.to_owned(), 0));
        let all = registered.iter().filter_map(|stored| digest(&stored.key)).chain(files);
        all.filter(|(sha256, _)| reader.scan(&GLOBAL.archive_uses(sha256), "", 1).is_empty()).collect()
    });
    let unused: BTreeMap<String, Revision> = unused.await;
    controller.archives.retain(&unused);
    // An upload may hold the lock for long; the next sweep finds the same archives. The grace period of an archive that
    // was uploaded since the archives were listed has started again, and the transition keeps one that was deployed.
    let Ok(_exclusive) = controller.archives.lock.try_write() else { return Ok(()) };
    let expired = controller.archives.expired(&unused, controller.environment.monotonic_ms(), grace_ms);
    for (sha256, revision) in expired {
        let digest = sha256.clone();
        let removed = controller.run(move |draft| Ok(archive::remove_unused(draft, &digest))).await;
        let removed = log_and_skip("remove charm archive", &sha256, removed)?;
        if removed.is_some_and(|removed| removed.answer) {
            controller.environment.delete_stored_file(&sha256, revision).await;
            tracing::info!("removed charm archive {sha256}: nothing uses it");
        }
    }
    Ok(())
}

/// Deletes those of these uses that have ended, in one transaction. Returns whether it succeeded.
async fn delete_ended_uses<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    uses: &[ArchiveUse],
) -> Result<bool, ApiError> {
    let uses = uses.to_vec();
    let transition = move |draft: &mut Draft<'_>| {
        archive::delete_ended_uses(draft, &uses);
        Ok(())
    };
    let deleted = controller.run(transition).await;
    Ok(log_and_skip("delete ended uses of charm archives", "", deleted)?.is_some())
}
