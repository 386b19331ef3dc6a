//! The reports of a running hook that the controller has not acknowledged yet.
//!
//! The agent sends them while the hook runs, the oldest first. The queue is bounded: the oldest report is dropped if
//! a hook reports faster than the controller acknowledges. The queue tracks which log lines were delivered, so that
//! the run's record can state how many lines are never delivered.

use crate::unit::record::{REPORTS_MAX, RunReport};
use std::collections::VecDeque;

/// The queue holds two messages of [`REPORTS_MAX`] reports; beyond that it keeps the newest.
const PENDING_MAX: usize = 2 * REPORTS_MAX;

/// The queue of one run. It is lost with the agent's process; the next process sends all reports of the run again.
#[derive(Clone, Debug, Default)]
pub struct PendingReports {
    queue: VecDeque<RunReport>,
    /// Every report up to this number was delivered or dropped.
    delivered: u32,
    dropped_lines: usize,
}

impl PendingReports {
    /// Appends a report, and drops the oldest one if the queue is full.
    pub fn push(&mut self, report: &RunReport) {
        self.queue.push_back(report.clone());
        if self.queue.len() > PENDING_MAX
            && let Some(dropped) = self.queue.pop_front()
        {
            self.dropped_lines += usize::from(dropped.what.is_log_line());
            self.delivered = dropped.number;
        }
    }

    /// Whether every report was acknowledged or dropped.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the reports of the next message, at most [`REPORTS_MAX`].
    pub fn next_batch(&self) -> Vec<RunReport> {
        self.queue.iter().take(REPORTS_MAX).cloned().collect()
    }

    /// Removes the reports up to this number, because the controller has stored them.
    pub fn acknowledge(&mut self, number: u32) {
        self.delivered = self.delivered.max(number);
        self.queue.retain(|report| report.number > number);
    }

    /// Returns the number of log lines that are never delivered if the run's record omits `omitted`.
    pub fn unreported_lines(&self, omitted: &[RunReport]) -> usize {
        let is_lost = |report: &&RunReport| report.number > self.delivered && report.what.is_log_line();
        self.dropped_lines + omitted.iter().filter(is_lost).count()
    }
}

#[cfg(test)]
mod tests {
    use crate::unit::hook_context::{Level, ReportContent};
    use crate::unit::pending_reports::*;

    fn line(number: u32) -> RunReport {
        RunReport {
            number,
            at_ms: 0,
            what: ReportContent::Log { level: Level::Info, text: number.to_string() },
        }
    }

    #[test]
    fn dropped_lines_are_unreported_and_acknowledged_lines_are_not() {
        let mut pending = PendingReports::default();
        let lines: Vec<RunReport> = (1..=100).map(line).collect();
        lines.iter().for_each(|line| pending.push(line));
        assert_eq!(pending.next_batch(), lines[..60]);
        assert_eq!(pending.unreported_lines(&lines[..45]), 45);
        pending.acknowledge(40);
        assert_eq!(pending.unreported_lines(&lines[..45]), 5);
        // 60 lines are queued, 100 more arrive, and 120 fit: lines 41 to 80 are dropped
        (101..=200).map(line).for_each(|line| pending.push(&line));
        assert_eq!(pending.next_batch()[0].number, 81);
        let omitted: Vec<RunReport> = (1..=145).map(line).collect();
        assert_eq!(pending.unreported_lines(&omitted), 40 + 65);
        pending.acknowledge(140);
        assert_eq!(pending.unreported_lines(&omitted), 40 + 5);
    }
}
