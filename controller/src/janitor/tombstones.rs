//! Deletes the oldest tombstones that no agent needs as evidence any more (`state::transitions::tombstone_retention`).

use super::batch::log_and_skip;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::parse;
use state::documents::prelude::{Kind, Model, last_id};
use state::terms::names::Uuid;
use state::transitions::retention_scan::{RetentionScan, ScanLimits};
use state::transitions::tombstone_retention::{TOMBSTONES_PER_BATCH, delete, may_be_deleted};

/// Tombstones read by one sweep: some 200 bytes and one read each.
const TOMBSTONES_PER_SWEEP: usize = 1_000;

/// Counts the next page of a model's tombstones, or deletes one batch of the oldest. Returns true if there is more to
/// do now.
pub(super) async fn sweep<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    scan: &mut RetentionScan,
    tombstones_max: usize,
) -> Result<bool, ApiError> {
    let mut advanced = std::mem::take(scan);
    let page = controller.read_available(move |reader| {
        let limits =
            ScanLimits { documents_max: tombstones_max, bytes_max: u64::MAX, page: TOMBSTONES_PER_SWEEP };
        advanced.advance(reader, &model.prefix(Kind::Tombstone), limits, |stored| {
            let tombstone = last_id(&stored.key).zip(parse(reader, stored));
            tombstone.is_some_and(|(id, tombstone)| may_be_deleted(reader, model, id, &tombstone))
        });
        advanced
    });
    *scan = page.await;
    let count = scan.excess.len().min(TOMBSTONES_PER_BATCH);
    let batch: Vec<Uuid> = scan.excess.drain(..count).filter_map(|key| last_id(&key)).collect();
    if !batch.is_empty() {
        let deleted = controller.run(move |draft| {
            delete(draft, model, &batch);
            Ok(())
        });
        log_and_skip("delete old tombstones of model", model.0, deleted.await)?;
    }
    Ok(scan.needs_next_pass || !scan.excess.is_empty())
}
