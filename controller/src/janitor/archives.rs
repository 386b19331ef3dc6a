//! Removes charm archives that nothing uses.
//!
//! An archive is removed when it has had no use for [`ARCHIVE_GRACE_MS`] (`state::lifecycle::archive`), and no client has
//! uploaded it or asked for it in that time: a client with the answer that the archive is stored is about to deploy it.
//!
//! The order is: 1. the document is removed, in a transaction that a concurrent deployment conflicts with; 2. the file is
//! deleted. A crash in between leaves a file without a document, which the next sweep deletes. An upload stores the file
//! first and the document second; the lock of `Controller::archives` keeps the janitor out in between, and while a client is answered
//! that an archive is here.

use super::batch::log_and_skip;
use crate::environment::Environment;
use crate::session::Controller;
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::Draft;
use state::documents::prelude::{ArchiveUse, GLOBAL, Kind, Parts};
use state::lifecycle::archive::{self, USES_PER_BATCH};
use std::collections::BTreeSet;

/// How long an archive that nothing uses is kept: an hour, in which `pintle remove-application` and another `pintle deploy`
/// of the same charm need no upload.
pub const ARCHIVE_GRACE_MS: u64 = 60 * 60 * 1000;
/// Uses that one sweep reads: some 250 bytes and two reads each.
const USES_PER_SWEEP: usize = 1_000;
/// How often all uses are read while an archive waits for its removal: every six minutes.
const SCANS_PER_GRACE: u64 = 10;

/// The progress through the uses of all archives.
#[derive(Default)]
pub(super) struct ArchiveScan {
    /// The key of the last use that was read; empty if none or all were read.
    after: String,
    /// When the uses are read again from the first one on, on the monotonic clock.
    next_ms: u64,
}

/// Deletes ended uses, those of one page, and removes what has had no use for `grace_ms`. Nothing depends on the moment:
/// all uses are read once in a [`SCANS_PER_GRACE`]th of that time.
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
        (uses.filter(|of| archive::has_ended(reader, of)).collect::<Vec<_>>(), last.unwrap_or_default())
    });
    let (ended, last) = page.await;
    scan.after = last;
    scan.next_ms = now_ms + grace_ms / SCANS_PER_GRACE;
    for batch in ended.chunks(USES_PER_BATCH) {
        if !delete_ended_uses(controller, batch).await? && batch.len() > 1 {
            // one damaged document does not keep the uses beside it
            for archive_use in batch {
                delete_ended_uses(controller, std::slice::from_ref(archive_use)).await?;
            }
        }
    }
    let files = controller.environment.archives().await;
    let unused = controller.read_available(move |reader| {
        let registered = reader.scan(&GLOBAL.prefix(Kind::Archive), "", usize::MAX);
        let digest = |key: &str| Parts::of(key).map(|parts| parts.rest.to_owned());
        let all = registered.iter().filter_map(|stored| digest(&stored.key)).chain(files);
        all.filter(|sha256| reader.scan(&GLOBAL.archive_uses(sha256), "", 1).is_empty()).collect()
    });
    let unused: BTreeSet<String> = unused.await;
    controller.archives.retain(&unused);
    // An upload may take minutes: the next sweep finds the same archives. What was uploaded since they were listed is
    // noted as needed, and a deployment of one of them refuses its removal.
    let Ok(_exclusive) = controller.archives.lock.try_write() else { return Ok(()) };
    for sha256 in controller.archives.expired(&unused, controller.environment.monotonic_ms(), grace_ms) {
        let digest = sha256.clone();
        let removed = controller.run(move |draft| Ok(archive::remove_unused(draft, &digest))).await;
        let removed = log_and_skip("remove charm archive", &sha256, removed)?;
        if removed.is_some_and(|removed| removed.answer) {
            controller.environment.delete_archive(&sha256).await;
            tracing::info!("removed charm archive {sha256}: nothing uses it");
        }
    }
    Ok(())
}

/// Deletes the ended ones of these uses in one transaction. Returns whether it succeeded.
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
