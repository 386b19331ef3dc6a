//! The growth of the debug logs of the models, in memory only.
//!
//! The janitor measures a log in pages, with pauses. The handlers of records and reports count the bytes that they have
//! stored; a log that has grown by [`GROWTH_MAX`] since it was last measured is measured at once and without pauses. A unit
//! that stores more than [`UNIT_GROWTH_MAX`] before its log was measured and is within its bound loses further lines, which
//! are counted: the log is bounded at each commit, however fast a unit logs.

use state::documents::prelude::Model;
use state::terms::names::Uuid;
use state::transitions::run_reports::LogAllowance;
use state::unit::record::RunReport;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a model may grow by this many bytes before it is measured without pauses: 1 MiB, an eighth of the bound.
const GROWTH_MAX: u64 = 1 << 20;

/// A unit may store this many bytes of lines between two measurements: four times the growth that starts one. With the
/// bound of the model (8 MiB) and what is committed during a measurement, a flood of one unit is stopped below 16 MiB.
const UNIT_GROWTH_MAX: u64 = 4 * GROWTH_MAX;

/// What each model has received since its log was last measured.
#[derive(Default)]
pub(crate) struct LogGrowth(Mutex<BTreeMap<Uuid, Growth>>);

#[derive(Default)]
struct Growth {
    /// The bytes since a measurement without pauses was started.
    bytes: u64,
    units: BTreeMap<Uuid, UnitGrowth>,
}

#[derive(Default)]
struct UnitGrowth {
    /// The bytes that were granted since the last measurement began.
    granted: u64,
    /// Those that were granted before it began: they count until the log is within its bound.
    measured: u64,
    /// The lines that were dropped and that no stored line has counted.
    dropped: u64,
}

/// What was granted to a message of a unit.
#[derive(Clone, Copy)]
pub(crate) struct LogGrant {
    /// The lines that are stored.
    pub allowance: LogAllowance,
    /// The bytes of them.
    bytes: u64,
}

impl LogGrowth {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Growth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides which log lines of a message may be stored, before its transaction: several messages of a unit may be
    /// committed at the same time. [`LogGrowth::stored`] must follow.
    pub(crate) fn grant(&self, model: Model, unit: Uuid, reports: &[RunReport]) -> LogGrant {
        let mut models = self.lock();
        let grown = models.entry(model.0).or_default();
        let known = grown.units.entry(unit).or_default();
        let left = UNIT_GROWTH_MAX.saturating_sub(known.granted + known.measured);
        let mut allowance = LogAllowance { bytes: left, dropped_before: 0 };
        let (bytes, dropped) = allowance.measure(reports);
        if bytes > 0 && dropped == 0 {
            allowance.dropped_before = std::mem::take(&mut known.dropped);
        }
        known.granted += bytes;
        known.dropped += dropped;
        if dropped > 0 {
            grown.bytes = grown.bytes.max(GROWTH_MAX); // so that the next sweep measures without pauses
        }
        LogGrant { allowance, bytes }
    }

    /// Counts the bytes of log lines that were stored of a message. Returns whether the log must be measured now.
    pub(crate) fn stored(&self, model: Model, unit: Uuid, grant: LogGrant, bytes: u64) -> bool {
        let mut models = self.lock();
        let grown = models.entry(model.0).or_default();
        if let Some(known) = grown.units.get_mut(&unit) {
            known.granted = known.granted.saturating_sub(grant.bytes.saturating_sub(bytes));
        }
        grown.bytes = grown.bytes.saturating_add(bytes);
        bytes > 0 && grown.bytes >= GROWTH_MAX
    }

    /// Whether the log of a model must be measured now; if so, counting starts again.
    pub(crate) fn take(&self, model: Model) -> bool {
        let mut models = self.lock();
        let large = models.get_mut(&model.0).filter(|grown| grown.bytes >= GROWTH_MAX);
        large.is_some_and(|grown| std::mem::take(&mut grown.bytes) > 0)
    }

    /// Records that a measurement of a model begins.
    pub(crate) fn begin(&self, model: Model) {
        if let Some(grown) = self.lock().get_mut(&model.0) {
            for unit in grown.units.values_mut() {
                unit.measured += std::mem::take(&mut unit.granted);
            }
        }
    }

    /// Records that the log of a model was measured and is within its bound.
    pub(crate) fn finish(&self, model: Model) {
        if let Some(grown) = self.lock().get_mut(&model.0) {
            grown.units.values_mut().for_each(|unit| unit.measured = 0);
            grown.units.retain(|_, unit| unit.granted > 0 || unit.dropped > 0);
        }
    }

    /// Forgets the models for which `exists` is false.
    pub(crate) fn retain(&self, exists: impl Fn(&Uuid) -> bool) {
        self.lock().retain(|model, _| exists(model));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::unit::writes::{Level, ReportContent};

    fn reports(bytes: usize) -> Vec<RunReport> {
        let what = ReportContent::Log { level: Level::Info, text: "t".repeat(bytes) };
        vec![RunReport { call: 1, at_ms: 1, what }]
    }

    #[test]
    fn a_unit_stores_no_more_than_its_budget_until_its_log_is_within_the_bound() {
        let (growth, model, unit) = (LogGrowth::default(), Model(Uuid(1)), Uuid(2));
        let mib = reports(1 << 20);
        let mut stored = 0;
        for _ in 0..10 {
            let grant = growth.grant(model, unit, &mib);
            stored += grant.bytes;
            growth.stored(model, unit, grant, grant.bytes);
        }
        assert!(stored > UNIT_GROWTH_MAX - (2 << 20) && stored <= UNIT_GROWTH_MAX, "{stored}");
        assert!(growth.grant(model, Uuid(3), &mib).bytes > 0, "another unit has its own");
        growth.begin(model);
        assert_eq!(growth.grant(model, unit, &mib).bytes, 0, "it is being measured");
        growth.finish(model);
        let grant = growth.grant(model, unit, &reports(1));
        assert!(grant.bytes > 0 && grant.allowance.dropped_before >= 7, "{:?}", grant.allowance);
        assert_eq!(
            growth.grant(model, unit, &reports(1)).allowance.dropped_before,
            0,
            "they are counted once"
        );
    }

    #[test]
    fn lines_that_were_not_stored_use_no_budget() {
        let (growth, model, unit) = (LogGrowth::default(), Model(Uuid(1)), Uuid(2));
        for _ in 0..10 {
            let grant = growth.grant(model, unit, &reports(1 << 20));
            assert!(grant.bytes > 0);
            growth.stored(model, unit, grant, 0);
        }
    }
}
