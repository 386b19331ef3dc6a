//! The last status that a unit has reported is shown, and each of its durable juju-log lines is stored, whatever the
//! outcome of the run (design 4). A report that arrives late or twice changes nothing: the shown status is never older
//! than one that was shown before.
//!
//! Not checked here: the status of an application, which the reports of several leaders change, the workload version, and
//! the lines of action-log and of the output of hooks.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, Model, ReportNumber, last_id};
use state::terms::failure_reason::FailureReason;
use state::terms::names::Uuid;
use state::terms::operation::Operation;
use state::terms::status_message::StatusMessage;
use state::transitions::run_reports::AFTER_RUN;
use state::unit::hook_context::ReportContent;
use state::unit::local::{Event, Local};
use state::unit::record::{Outcome, Record, RunReport};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct StatusDelivery {
    /// The last durable status, by folder.
    reports: BTreeMap<Uuid, (ReportNumber, String)>,
    /// The durable log lines, by folder.
    lines: BTreeMap<Uuid, BTreeSet<ReportNumber>>,
    /// The number of the shown status, by unit.
    shown: BTreeMap<Uuid, ReportNumber>,
    /// The last run in which status-set returned, and its message, by folder.
    answered_statuses: BTreeMap<Uuid, (u64, String)>,
}

/// Whether the process of the hook ended without the agent: it exited, or a signal of another process killed it.
fn ended_without_agent(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ok => true,
        Outcome::Failed { reason, .. } => {
            matches!(reason, FailureReason::Exit { .. } | FailureReason::Signal { .. })
        }
        Outcome::Missing | Outcome::Skipped => false,
    }
}

impl StatusDelivery {
    fn record(&mut self, folder: Uuid, run: u64, reports: &[RunReport]) {
        for RunReport { number, what, .. } in reports {
            let number = ReportNumber { run, report: *number };
            match what {
                ReportContent::UnitStatus { message, .. } => {
                    self.reports.insert(folder, (number, message.clone()));
                }
                ReportContent::Log { .. } => drop(self.lines.entry(folder).or_default().insert(number)),
                ReportContent::ApplicationStatus { .. }
                | ReportContent::WorkloadVersion(_)
                | ReportContent::ActionLog(_)
                | ReportContent::Output { .. } => {}
            }
        }
    }
}

impl Check for StatusDelivery {
    fn name(&self) -> &'static str {
        "statuses"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::HookSetStatus { folder, run, message } = fact {
            self.answered_statuses.insert(*folder, (*run, message.clone()));
        }
        let Fact::EventsPersisted { folder, events, .. } = fact else { return };
        for event in events.iter() {
            // a folder that was lost numbers its runs from 1 again
            if matches!(event, Event::Started(_)) {
                self.answered_statuses.remove(folder);
            }
            if let Event::Finished(record) = event
                && let Some((run, message)) = self.answered_statuses.get(folder)
                && *run == record.run
                && record.operation.runs_charm()
                && ended_without_agent(&record.outcome)
            {
                let is_reported = |report: &RunReport| matches!(&report.what, ReportContent::UnitStatus { message: reported, .. } if reported == message);
                if !record.reports.iter().any(is_reported) {
                    found.push(format!(
                        "{folder}: run {run} has set status {message:?}, but its record does not report it"
                    ));
                }
            }
            if let Event::UnrecordedReport(unrecorded) = event {
                self.record(*folder, unrecorded.run, &unrecorded.reports);
            }
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        // a resync does not repeat the reports of unsent records, except the last status
        if record.operation == Operation::Resync {
            self.lines.remove(&folder);
            let status = record.resync_local.as_ref().and_then(|published| published.status.clone());
            let last = status
                .map(|(_, message)| (folder, (ReportNumber { run: record.run, report: AFTER_RUN }, message)));
            self.reports.extend(last);
        }
        self.record(folder, record.run, &record.reports);
    }

    fn journal_started(&mut self, folder: Uuid, _stored: &Local) {
        self.reports.remove(&folder);
        self.lines.remove(&folder);
    }

    /// Earlier reports are lost with the store, except the last status, which a resync reports again.
    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.reports.clear();
        self.lines.clear();
        self.shown.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::UnitStatus) {
            let Some(unit) = last_id(&change.key) else { continue };
            let shown = read(commit.reader, &commit.model.unit_status(unit)).map(|status| status.number);
            let before = self.shown.insert(unit, shown.unwrap_or_default()).unwrap_or_default();
            if shown.is_some_and(|shown| shown < before) {
                found.push(format!("{unit}: status {shown:?} replaced the newer status {before:?}"));
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in &end.agents {
            for ReportNumber { run, report } in self.lines.get(&agent.folder).into_iter().flatten() {
                if read(end.reader, &end.model.log(agent.unit, *run, *report)).is_none() {
                    found.push(format!("{}: log line {report} of run {run} is not in the log", agent.name));
                }
            }
            let Some((number, message)) = self.reports.get(&agent.folder) else { continue };
            let shown = read(end.reader, &end.model.unit_status(agent.unit)).unwrap_or_default();
            if shown.number < *number
                || (shown.number == *number && shown.message != StatusMessage::OfCharm(message.clone()))
            {
                let name = &agent.name;
                found.push(format!("{name}: reported {message:?} in {number:?}, but {shown:?} is shown"));
            }
        }
    }
}
