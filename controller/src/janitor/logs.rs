//! Enforces the bound of each model's debug log.
//!
//! A sweep reads one page of lines and measures the bytes of each unit. Once the lines that were read exceed the bound,
//! the core decides which ones are deleted (`state::transitions::log_retention`), they are deleted in batches, and the
//! measurement starts again. When the log of a model has grown fast (`debug_log_growth`), the sweeps follow each other
//! without a pause until one measurement is complete, so that the log cannot grow faster than it is measured.

use super::batch::log_and_skip;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::{Draft, PAGE_MAX, Reader};
use state::documents::prelude::{KeyParts, Model};
use state::terms::names::Uuid;
use state::transitions::log_retention::{self, DEBUG_LOG_BYTES_MAX, excess, line_bytes, oldest};
use std::collections::BTreeMap;

/// Log lines read by one sweep: 300 KiB. A full log takes some 28 sweeps.
const LINES_PER_SWEEP: usize = 1_000;
/// Batches deleted by one sweep: as many lines as it reads.
const BATCHES_PER_SWEEP: usize = LINES_PER_SWEEP / PAGE_MAX;
/// The measurement of one model's log, over several sweeps.
#[derive(Default)]
pub(super) struct LogScan {
    /// The last key that was read.
    after: String,
    /// The bytes of each unit in the pages that were read.
    usage: BTreeMap<Uuid, u64>,
    /// The bytes that must be deleted of each unit, before the measurement starts again.
    excess: BTreeMap<Uuid, u64>,
    /// Whether the sweeps follow each other without a pause until the measurement is complete.
    is_urgent: bool,
}

impl LogScan {
    /// Reads the next page of lines.
    fn advance(&mut self, reader: &dyn Reader, model: Model) {
        if !self.excess.is_empty() {
            return;
        }
        let page = reader.scan(&model.logs(), &self.after, LINES_PER_SWEEP);
        let is_last = page.len() < LINES_PER_SWEEP;
        for stored in page {
            let unit = KeyParts::of(&stored.key).and_then(|parts| parts.ids().first().copied());
            *self.usage.entry(unit.unwrap_or(Uuid(0))).or_default() += line_bytes(&stored);
            self.after = stored.key;
        }
        let excess = excess(&self.usage, DEBUG_LOG_BYTES_MAX);
        if is_last || !excess.is_empty() {
            let is_urgent = self.is_urgent && !is_last;
            *self = LogScan { excess, is_urgent, ..LogScan::default() };
        }
    }
}

/// Measures the next page of a model's log, or deletes lines beyond the bound. Returns true if there is more to do now.
pub(super) async fn sweep<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    scan: &mut LogScan,
) -> Result<bool, ApiError> {
    let mut advanced = std::mem::take(scan);
    advanced.is_urgent |= controller.log_growth.take(model);
    let is_measured = advanced.excess.is_empty();
    if is_measured && advanced.after.is_empty() {
        controller.log_growth.begin(model);
    }
    let page = controller.read_available(move |reader| {
        advanced.advance(reader, model);
        advanced
    });
    *scan = page.await;
    if is_measured && scan.after.is_empty() && scan.excess.is_empty() {
        controller.log_growth.finish(model);
    }
    for _ in 0..BATCHES_PER_SWEEP {
        let Some((unit, bytes)) = scan.excess.pop_first() else { break };
        let (keys, left) = controller.read_available(move |reader| oldest(reader, model, unit, bytes)).await;
        let transition = move |draft: &mut Draft<'_>| {
            log_retention::delete(draft, &keys);
            Ok(())
        };
        let deleted = controller.run(transition).await;
        match log_and_skip("delete old log lines of unit", unit, deleted)? {
            Some(_) if left > 0 => drop(scan.excess.insert(unit, left)),
            Some(_) => {}
            // Without a pause the same batch would fail again at once. The next regular sweep measures again.
            None => scan.is_urgent = false,
        }
    }
    Ok(scan.is_urgent || !scan.excess.is_empty())
}
