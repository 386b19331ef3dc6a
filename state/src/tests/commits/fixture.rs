//! The fixture of the tests of records: records, reports, and the state that they change.

use crate::agents::record_validation::{EarlyReport, Valid};
use crate::agents::session::AgentSession;
use crate::documents::draft::Draft;
use crate::documents::refusal::Refusal;
use crate::terms::activity::Activity;
use crate::terms::settings::BagChange;
use crate::terms::status::WorkloadStatus;
use crate::terms::status_message::StatusMessage;
use crate::tests::*;
use crate::transitions::record_commit;
use crate::transitions::run_reports::{LogLines, ReportsOfRun};
use crate::unit::hook_context::{Level, ReportContent};
use crate::unit::record::RunReport;

pub fn change(key: &str, value: &str) -> BagChange {
    BagChange::from([(key.to_owned(), value.to_owned())])
}

pub fn run_report(number: u32, what: ReportContent) -> RunReport {
    RunReport { number, at_ms: 2000 + i64::from(number), what }
}

pub fn status(number: u32, message: &str) -> RunReport {
    run_report(number, ReportContent::UnitStatus { status: WorkloadStatus::Active, message: message.into() })
}

/// The message that a charm set.
pub fn of_charm(text: &str) -> StatusMessage {
    StatusMessage::OfCharm(text.to_owned())
}

pub fn log(number: u32, text: &str) -> RunReport {
    run_report(number, ReportContent::Log { level: Level::Info, text: text.into() })
}

pub fn hook(agent: &Agent) -> Record {
    agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok)
}

pub fn report(
    world: &mut World,
    agent: &Agent,
    run: u64,
    reports: &[RunReport],
) -> Result<Vec<DroppedWrite>, Refusal> {
    let reports = ReportsOfRun { run, reports, end: None };
    world.run(|draft, _| apply_report(draft, agent.session(), reports, None, 9))
}

/// Validates an early report and applies it, as the handler does.
pub fn apply_report(
    draft: &mut Draft,
    session: AgentSession,
    reports: ReportsOfRun,
    executing: Option<&Activity>,
    now_ms: i64,
) -> Result<Vec<DroppedWrite>, Refusal> {
    let (run, reports, executing) = (reports.run, reports.reports.to_vec(), executing.cloned());
    let report = Valid::report(EarlyReport { run, reports, executing, executing_for_ms: 0 })?;
    record_commit::apply_report(draft, session, &report, LogLines::ALL, now_ms)
}
