//! The times that a unit agent reports, within what the clock of the controller allows.
//!
//! The wall clock of a machine may be wrong, and an agent is not trusted: nothing that a unit reports happened before the
//! unit was created or after the report arrived. A time outside of these bounds becomes the nearer one, and no record is
//! refused for its times. What the controller creates because of a record has the controller's time. Called by
//! `transitions::record_commit`; the replica, which is the fold of the records, keeps the agent's times.

use crate::documents::prelude::UnitDoc;
use crate::unit::record::{Record, RunReport};
use std::borrow::Cow;

/// The earliest and the latest time that a unit can report, in milliseconds since 1970 by the controller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedTime {
    created_ms: i64,
    now_ms: i64,
}

impl ReportedTime {
    /// The bounds of what a unit reports now.
    pub(crate) fn of(doc: &UnitDoc, now_ms: i64) -> ReportedTime {
        ReportedTime { created_ms: doc.created_ms, now_ms }
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
