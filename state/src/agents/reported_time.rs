//! The times that a unit agent reports, or its machine agent about it, within what the clock of the controller allows.
//!
//! The wall clock of a machine may be wrong, and an agent is not trusted: nothing that a unit reports happened before the
//! unit was created or after the report arrived. A time outside of these bounds becomes the nearer one; only a time that is
//! no number of the protocol (`record_validation::NUMBER_MAX`) refuses a record. Secrets, detached storage and ended
//! actions have the bounded time of the record; units, storage and scopes that the controller creates because of the
//! record have the controller's time. The replica, which is the fold of the records, keeps the agent's times.
//!
//! Called by `transitions::record_commit`, and by the handler of `ReportUnitHealth`.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{Model, UnitDoc};
use crate::terms::health::UnitHealth;
use crate::terms::names::Uuid;
use crate::unit::record::{Record, RunReport};
use std::borrow::Cow;

/// The earliest and the latest time that a unit can report, in milliseconds since 1970 by the controller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedTimeBounds {
    created_ms: i64,
    now_ms: i64,
}

impl ReportedTimeBounds {
    /// The bounds of what a unit reports now.
    pub(crate) fn of(doc: &UnitDoc, now_ms: i64) -> ReportedTimeBounds {
        ReportedTimeBounds { created_ms: doc.created_ms, now_ms }
    }

    /// The bounds of what is reported about this unit now. For a unit that does not exist, both bounds are now.
    pub fn of_unit(reader: &dyn Reader, model: Model, unit: Uuid, now_ms: i64) -> ReportedTimeBounds {
        let created_ms = read(reader, &model.unit(unit)).map_or(now_ms, |doc| doc.created_ms);
        ReportedTimeBounds { created_ms, now_ms }
    }

    /// What a machine agent has observed, with its times within the bounds: the last end is not before the first one.
    #[must_use]
    pub fn health(self, mut health: UnitHealth) -> UnitHealth {
        if let Some(exit) = &mut health.exit {
            exit.since_ms = self.bounded(exit.since_ms);
            exit.at_ms = self.bounded(exit.at_ms).max(exit.since_ms);
        }
        health
    }

    /// The time within the bounds. If the controller's clock was set back to before the unit was created, it is now.
    pub(crate) fn bounded(self, at_ms: i64) -> i64 {
        at_ms.max(self.created_ms).min(self.now_ms)
    }

    /// The record with its times within the bounds.
    pub(crate) fn record(self, record: &Record) -> Cow<'_, Record> {
        let reports = self.reports(&record.reports);
        let at_ms = self.bounded(record.at_ms);
        if at_ms == record.at_ms && matches!(reports, Cow::Borrowed(_)) {
            return Cow::Borrowed(record);
        }
        let reports = reports.into_owned();
        Cow::Owned(Record { at_ms, reports, ..record.clone() })
    }

    /// The reports with their times within the bounds.
    pub(crate) fn reports(self, reports: &[RunReport]) -> Cow<'_, [RunReport]> {
        if reports.iter().all(|report| self.bounded(report.at_ms) == report.at_ms) {
            return Cow::Borrowed(reports);
        }
        let bounded = |report: &RunReport| RunReport { at_ms: self.bounded(report.at_ms), ..report.clone() };
        Cow::Owned(reports.iter().map(bounded).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::health::{ProcessEnd, UnitAgentExit};

    #[test]
    fn an_observed_end_is_between_the_creation_of_the_unit_and_now_and_not_before_the_first_one() {
        let bounds = ReportedTimeBounds { created_ms: 100, now_ms: 200 };
        let bounded = |since_ms, at_ms| {
            let end = ProcessEnd::Code(1);
            let exit = UnitAgentExit { end, fault: None, last_error: None, since_ms, at_ms, count: 2 };
            let health = bounds.health(UnitHealth { exit: Some(exit), ..UnitHealth::default() });
            health.exit.map(|exit| (exit.since_ms, exit.at_ms))
        };
        assert_eq!(bounded(120, 150), Some((120, 150)));
        assert_eq!(bounded(i64::MIN, i64::MAX), Some((100, 200)));
        assert_eq!(bounded(150, 120), Some((150, 150)));
        assert_eq!(bounded(i64::MAX, i64::MIN), Some((200, 200)));
    }
}
