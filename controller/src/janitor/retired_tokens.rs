//! Deletes the oldest retired tokens beyond their limit. A retired token belongs to a removed machine whose agent has not
//! confirmed the removal yet (`state::documents::token`).

use super::batch::log_and_skip;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use state::documents::prelude::{GLOBAL, Kind, last_id};
use state::documents::token::{RETIRED_TOKENS_PER_BATCH, delete_retired};
use state::terms::names::Uuid;
use state::transitions::retention_scan::{RetentionScan, ScanLimits};

/// The number of retired tokens that one sweep reads: some 150 bytes each. More exist only until the janitor has deleted
/// the oldest.
const TOKENS_PER_SWEEP: usize = 1_000;

/// Counts the next page of the retired tokens, or deletes one batch of the oldest beyond `tokens_max`. Returns true if
/// there is more to do now.
pub(super) async fn sweep<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    scan: &mut RetentionScan,
    tokens_max: usize,
) -> Result<bool, ApiError> {
    let mut advanced = std::mem::take(scan);
    let page = controller.read_available(move |reader| {
        let limits = ScanLimits { documents_max: tokens_max, bytes_max: u64::MAX, page: TOKENS_PER_SWEEP };
        advanced.advance(reader, &GLOBAL.prefix(Kind::RetiredToken), limits, |_| true);
        advanced
    });
    *scan = page.await;
    let count = scan.excess.len().min(RETIRED_TOKENS_PER_BATCH);
    let batch: Vec<Uuid> = scan.excess.drain(..count).filter_map(|key| last_id(&key)).collect();
    if !batch.is_empty() {
        let deleted = controller.run(move |draft| {
            delete_retired(draft, &batch);
            Ok(())
        });
        log_and_skip("delete old tokens of removed machines, model", GLOBAL.0, deleted.await)?;
    }
    Ok(scan.needs_next_pass || !scan.excess.is_empty())
}
