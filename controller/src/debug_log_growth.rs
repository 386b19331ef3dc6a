//! The growth of the debug logs of the models, in memory only.
//!
//! The janitor measures a log in pages, with pauses. The handlers of records and reports count the bytes that they have
//! stored; a log that has grown by [`GROWTH_MAX`] since it was last measured is measured at once and without pauses. A unit
//! that has stored [`UNIT_GROWTH_MAX`] before its log was measured and is within its bound loses the lines of further
//! messages, which are counted: the log is bounded at each commit, however fast a unit logs.

use state::documents::prelude::Model;
use state::terms::names::Uuid;
use state::transitions::run_reports::LogLines;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a model may grow by this many bytes before it is measured without pauses: 1 MiB, an eighth of the bound.
const GROWTH_MAX: u64 = 1 << 20;

/// The lines of a message are dropped when its unit has stored this many bytes since the last measurement: four times the
/// growth that starts one. With the bound of the model (8 MiB) and the messages that are committed at the same time (16
/// connections, 512 KiB each), a flood of one unit is stopped at 20 MiB.
const UNIT_GROWTH_MAX: u64 = 4 * GROWTH_MAX;

/// Units of a model of which dropped lines are kept until they are stated, removed units included: 64 bytes each, 640 KiB.
const UNITS_KEPT_MAX: usize = 10_000;

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
    /// The bytes that were stored since the last measurement began.
    stored: u64,
    /// Those that were stored before it began: they count until the log is within its bound.
    measured: u64,
    /// The lines that were dropped and that no stored line states. A message that is sent twice counts twice.
    dropped: u64,
    /// Whether a message has come since the log was last within its bound.
    is_active: bool,
}

/// What was decided about the log lines of a message of a unit.
#[derive(Clone, Copy)]
pub(crate) struct LogGrant {
    /// The model of the unit.
    pub model: Model,
    unit: Uuid,
    /// Whether they are stored.
    pub lines: LogLines,
    /// Their number.
    count: u64,
}

impl LogGrowth {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Growth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether the `count` log lines of a message are stored, before its transaction. [`LogGrowth::record`] must follow.
    pub(crate) fn grant(&self, model: Model, unit: Uuid, count: u64) -> LogGrant {
        let mut models = self.lock();
        let grown = models.entry(model.0).or_default();
        let known = grown.units.entry(unit).or_default();
        known.is_active = true;
        let lines = match known.stored + known.measured < UNIT_GROWTH_MAX {
            true => LogLines::Stored { dropped_before: std::mem::take(&mut known.dropped) },
            false => {
                grown.bytes = grown.bytes.max(GROWTH_MAX); // so that the next sweep measures without pauses
                LogLines::Dropped
            }
        };
        LogGrant { model, unit, lines, count }
    }

    /// Counts the bytes of log lines that were stored of a message; none if its transaction was not committed. Returns
    /// whether the log must be measured now.
    pub(crate) fn record(&self, grant: LogGrant, bytes: Option<u64>) -> bool {
        let mut models = self.lock();
        let grown = models.entry(grant.model.0).or_default();
        let known = grown.units.entry(grant.unit).or_default();
        let stored = bytes.unwrap_or(0);
        match grant.lines {
            LogLines::Stored { dropped_before } if stored == 0 => known.dropped += dropped_before,
            LogLines::Dropped if bytes.is_some() => known.dropped += grant.count,
            LogLines::Stored { .. } | LogLines::Dropped => {}
        }
        known.stored += stored;
        grown.bytes += stored;
        stored > 0 && grown.bytes >= GROWTH_MAX
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
                unit.measured += std::mem::take(&mut unit.stored);
            }
        }
    }

    /// Records that the log of a model was measured and is within its bound.
    pub(crate) fn finish(&self, model: Model) {
        if let Some(grown) = self.lock().get_mut(&model.0) {
            grown.units.values_mut().for_each(|unit| unit.measured = 0);
            let are_too_many = grown.units.len() > UNITS_KEPT_MAX;
            grown.units.retain(|_, unit| {
                let is_active = std::mem::take(&mut unit.is_active) || unit.stored > 0;
                is_active || (unit.dropped > 0 && !are_too_many)
            });
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

    #[test]
    fn a_unit_stores_no_more_than_its_budget_until_its_log_is_within_the_bound() {
        let (growth, model, unit) = (LogGrowth::default(), Model(Uuid(1)), Uuid(2));
        let is_stored = |unit| growth.grant(model, unit, 1);
        for _ in 0..4 {
            growth.record(is_stored(unit), Some(1 << 20));
        }
        assert_eq!(is_stored(unit).lines, LogLines::Dropped);
        growth.record(is_stored(unit), Some(0));
        growth.record(is_stored(unit), None);
        assert_eq!(is_stored(Uuid(3)).lines, LogLines::ALL, "another unit has its own budget");
        growth.begin(model);
        assert_eq!(is_stored(unit).lines, LogLines::Dropped, "it is being measured");
        growth.finish(model);
        let one = LogLines::Stored { dropped_before: 1 };
        let grant = is_stored(unit);
        assert_eq!(grant.lines, one, "the message that was not committed does not count");
        growth.record(grant, None);
        let grant = is_stored(unit);
        assert_eq!(grant.lines, one, "nothing has stated it yet");
        growth.record(grant, Some(1));
        assert_eq!(is_stored(unit).lines, LogLines::ALL);
    }

    #[test]
    fn a_unit_that_sends_nothing_is_forgotten() {
        let (growth, model) = (LogGrowth::default(), Model(Uuid(1)));
        growth.grant(model, Uuid(2), 1);
        for _ in 0..2 {
            growth.begin(model);
            growth.finish(model);
        }
        assert!(growth.lock()[&model.0].units.is_empty());
        for unit in 0..=UNITS_KEPT_MAX as u128 {
            let dropped = UnitGrowth { dropped: 1, ..UnitGrowth::default() };
            growth.lock().entry(model.0).or_default().units.insert(Uuid(unit), dropped);
        }
        growth.finish(model);
        assert!(growth.lock()[&model.0].units.is_empty(), "there are too many");
    }
}
