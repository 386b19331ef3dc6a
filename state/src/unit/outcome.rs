//! Turns the end of a run into its record.
//!
//! The agent passes in how the process ended, what the hook wrote and what it reported. A failed hook publishes only
//! its reports, a failed action also its results. An interrupted run has no record here: `retry` decides whether it runs
//! again or has failed. The record never exceeds the limits of one transaction: log lines that do not fit are replaced by a
//! line with their number.

use super::decision::Now;
use super::hook_context::{Level, Reboot, ReportContent, Writes};
use super::hook_log::{HookHandler, HookLog};
use super::local::{Event, Local, Run, UnrecordedReport};
use super::pending_operations::addresses;
use super::record::{Outcome, REPORTS_MAX, Record, RunReport};
use super::required_files::RequiredFiles;
use super::retry;
pub use super::run_exit::RunExit;
use super::snapshot::Snapshot;
use crate::terms::activity::Activity;
use crate::terms::failure_reason::FailureReason;
use crate::terms::log_module::UNITER_OPERATION;
use crate::terms::operation::{Hook, Operation};
use crate::terms::required_file::RequiredFile;
use crate::unit::pending_reports::PendingReports;
use std::collections::BTreeSet;

/// The most characters of a failed hook's last line on stderr that become part of the failure message: the message
/// stays one line in a terminal.
const LAST_LINE_CHARS_MAX: usize = 200;

/// The result of a run: how it ended, what it wrote and what it reported.
#[derive(Clone, Debug)]
pub struct HookResult {
    /// How the program ended.
    pub exit: RunExit,
    /// The program of the charm that was started; none if it was none.
    pub handler: Option<HookHandler>,
    /// The files that its hooks need, after the run; none if they were not observed.
    pub files: Option<RequiredFiles>,
    /// What the hook's tools wrote, which is applied only if the hook succeeded; the results of an action in any case.
    pub writes: Writes,
    /// What the hook reported, in order: log lines, statuses and output. It takes effect even if the hook failed.
    pub reports: Vec<RunReport>,
}

impl HookResult {
    /// The result of a run that wrote and reported nothing.
    pub fn without_writes(exit: RunExit) -> HookResult {
        HookResult { exit, handler: None, files: None, writes: Writes::default(), reports: Vec::new() }
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct FinishedRun<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its result.
    pub result: HookResult,
    /// The reports that were not delivered before the run ended.
    pub pending_reports: &'a PendingReports,
    /// The lines that are added to its log.
    pub texts: RunTexts,
}

/// The lines that an agent adds to the log of a run. Their English is in `api::text::log`.
#[derive(Clone, Copy, Debug)]
pub struct RunTexts {
    /// About this many earlier lines that the log lacks, in the run with this number.
    pub omitted_lines: fn(usize, u64) -> String,
}

/// Returns the events that the end of a run adds to the journal. There are none if the run was interrupted.
pub fn events(local: &Local, view: Option<&Snapshot>, now: &Now, finished: FinishedRun) -> Vec<Event> {
    if finished.result.writes.reboot == Some(Reboot::Now) {
        let run = finished.run.number;
        let reports = bounded_reports(
            finished.run,
            finished.result.reports,
            finished.pending_reports,
            finished.texts,
            now,
        );
        let unrecorded =
            (!reports.is_empty()).then_some(Event::UnrecordedReport(UnrecordedReport { run, reports }));
        return [Event::RebootRequested(now.boot.clone())].into_iter().chain(unrecorded).collect();
    }
    record(local, view, now, finished).map(Event::Finished).into_iter().collect()
}

/// How the end of a run counts, which is not always how its process has ended: a hook that has lost a program of its charm is
/// interrupted.
pub fn counted_exit(local: &Local, run: &Run, result: &HookResult) -> RunExit {
    match &result.files {
        Some(files) => result.exit.clone().with_required_files(local, run, files),
        None => result.exit.clone(),
    }
}

/// Returns the record of a run, or `None` if it was interrupted.
pub fn record(local: &Local, view: Option<&Snapshot>, now: &Now, finished: FinishedRun) -> Option<Record> {
    let exit = counted_exit(local, finished.run, &finished.result);
    let FinishedRun {
        run,
        result: HookResult { exit: _, handler, files, writes, reports },
        pending_reports,
        texts,
    } = finished;
    let operation = &run.operation;
    let runs_once = operation.runs_once();
    let last_line = last_error_line(&reports);
    let failed = |reason: FailureReason| {
        let retry = if runs_once { None } else { retry::retry_after(local, view, now, operation) };
        Outcome::Failed { reason, retry }
    };
    let files = files.unwrap_or_default();
    let may_delete = matches!(operation, Operation::Hook(Hook::Install | Hook::UpgradeCharm));
    let is_deleted_by_charm = exit == RunExit::Code(0) && may_delete && files.is_any_lost(local);
    let outcome = match exit {
        RunExit::Interrupted => return None,
        RunExit::Code(0) => Outcome::Ok,
        RunExit::Missing if runs_once => failed(FailureReason::ActionMissing { unit: local.name.clone() }),
        RunExit::Missing => Outcome::Missing,
        RunExit::Cancelled => Outcome::Skipped,
        RunExit::Code(code) => failed(FailureReason::exit(code)),
        RunExit::Signal(signal) => failed(FailureReason::signal(signal)),
        RunExit::Failed(reason) => failed(reason),
    };
    let mut record = local.record(operation.clone(), outcome, now.wall_ms);
    if is_deleted_by_charm {
        record.deleted_files = files.missing().filter(|program| *program == RequiredFile::Dispatch).collect();
    }
    // a failed hook publishes only its reports; an action's results are sent even if it failed
    if record.outcome.advances() {
        record.writes = writes;
        record.reboot = record.writes.reboot.take().map(|_| now.boot.clone());
        refresh_addresses(local, view, &mut record);
    } else {
        record.writes.action = writes.action;
    }
    record.reports = bounded_reports(run, reports, pending_reports, texts, now);
    if matches!(record.operation, Operation::Hook(_)) {
        let logging = view.map(|view| view.model.logging.clone()).unwrap_or_default();
        record.hook_log = Some(HookLog { handler, lowest: logging.level_of(UNITER_OPERATION) });
        if let Outcome::Failed {
            reason:
                FailureReason::Exit { last_line: known, .. } | FailureReason::Signal { last_line: known, .. },
            ..
        } = &mut record.outcome
        {
            *known = last_line;
        }
    }
    Some(record)
}

/// Returns the newest reports of a run that fit into one message, and a line with the number of omitted lines.
fn bounded_reports(
    run: &Run,
    reports: Vec<RunReport>,
    pending_reports: &PendingReports,
    texts: RunTexts,
    now: &Now,
) -> Vec<RunReport> {
    let (mut reports, unfit) = split_newest(reports);
    let omitted = pending_reports.unreported_lines(&unfit);
    if omitted > 0 {
        let text = (texts.omitted_lines)(omitted, run.number);
        let what = ReportContent::Output { run: Activity::from(&run.operation), level: Level::Warning, text };
        // calls are counted from 1, so that call 0 precedes the lines of this message
        reports.push(RunReport { number: 0, at_ms: now.wall_ms, what });
    }
    reports
}

/// Returns the last line that the charm's program printed on stderr or, if it printed none, the last line that it logged as
/// an error: ops logs the traceback of a charm and prints nothing.
fn last_error_line(reports: &[RunReport]) -> Option<String> {
    let printed = reports.iter().rev().find_map(|report| match &report.what {
        ReportContent::Output { level: Level::Warning, text, .. } => last_line(text),
        _ => None,
    });
    let logged = || {
        reports.iter().rev().find_map(|report| match &report.what {
            ReportContent::Log { level: Level::Error | Level::Critical, text } => last_line(text),
            _ => None,
        })
    };
    printed.or_else(logged)
}

/// The last line of a text that is not empty, bounded.
fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_LINE_CHARS_MAX).collect())
}

/// Splits reports into those that one record can hold and those that it cannot. The record holds the last status of
/// each kind and the newest lines, which show how the run ended.
fn split_newest(reports: Vec<RunReport>) -> (Vec<RunReport>, Vec<RunReport>) {
    let mut kinds = BTreeSet::new();
    // 5 reports are reserved: three statuses, the line about the end of the hook, and the line with the number of
    // omitted lines
    let mut lines_left = REPORTS_MAX - 5;
    let (mut kept, mut unfit): (Vec<RunReport>, Vec<RunReport>) =
        reports.into_iter().rev().partition(|report| match &report.what {
            ReportContent::UnitStatus { .. } => kinds.insert(0),
            ReportContent::ApplicationStatus { .. } => kinds.insert(1),
            ReportContent::WorkloadVersion(_) => kinds.insert(2),
            ReportContent::Log { .. } | ReportContent::ActionLog(_) | ReportContent::Output { .. } => {
                let fits = lines_left > 0;
                lines_left = lines_left.saturating_sub(1);
                fits
            }
        });
    kept.reverse();
    unfit.reverse();
    (kept, unfit)
}

/// Publishes new addresses in every relation, if the hook was a config-changed for new addresses (spec A.12).
fn refresh_addresses(local: &Local, view: Option<&Snapshot>, record: &mut Record) {
    let (Operation::Hook(Hook::ConfigChanged(seen)), Some(view)) = (&record.operation, view) else { return };
    if local.config.as_ref().is_none_or(|old| old.addresses == seen.addresses) {
        return;
    }
    for number in local.relations.keys() {
        let change = &mut record.writes.bags.entry(*number).or_default().unit;
        for (key, value) in addresses(view) {
            change.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::hook_name::HookName;
    use crate::terms::names::{UnitName, Uuid};
    use crate::terms::run_lock::HeldLock;
    use crate::terms::start_reason::StartReason;
    use crate::terms::status::WorkloadStatus;
    use crate::unit::decision::{CharmOnDisk, NextMessage};
    use crate::unit::local::Event;
    use crate::unit::resolve::next;

    const TEXTS: RunTexts = RunTexts { omitted_lines };

    fn omitted_lines(count: usize, run: u64) -> String {
        format!("{count} of {run}")
    }

    #[test]
    fn a_failed_action_and_a_hook_that_requested_a_reboot_are_no_failed_hook() {
        let hook = Operation::Hook(Hook::Install);
        let action = Operation::Action { id: 1, name: "backup".to_owned() };
        assert!(RunExit::Code(1).is_failed_hook(&hook, false));
        assert!(RunExit::Signal(9).is_failed_hook(&hook, false));
        assert!(!RunExit::Code(0).is_failed_hook(&hook, false));
        assert!(!RunExit::Signal(9).is_failed_hook(&hook, true), "killed for its own reboot");
        assert!(!RunExit::Code(1).is_failed_hook(&action, false));
    }

    #[test]
    fn a_hook_that_ran_without_tools_is_started_again_once_and_a_last_hook_or_an_action_never() {
        let interrupted = |operation: Operation, attempt| {
            let run = Run { attempt, ..Run::new(7, operation, StartReason::IntervalPassed) };
            RunExit::Code(0).without_tools(&run) == RunExit::Interrupted
        };
        assert!(interrupted(Operation::Hook(Hook::UpdateStatus), 1));
        assert!(!interrupted(Operation::Hook(Hook::UpdateStatus), 2), "it deletes them itself");
        assert!(!interrupted(Operation::Hook(Hook::Remove), 1));
        assert!(!interrupted(Operation::Action { id: 1, name: "backup".to_owned() }, 1));
        let failed = Run::new(7, Operation::Hook(Hook::UpdateStatus), StartReason::IntervalPassed);
        assert_eq!(RunExit::Code(1).without_tools(&failed), RunExit::Code(1));
    }

    #[test]
    fn a_record_states_the_number_of_lines_that_were_never_delivered() {
        let mut local = Local::new(Uuid(2), UnitName::new("web", 0));
        local.run = 6;
        let operation = Operation::Hook(Hook::UpdateStatus);
        let run = Run::new(7, operation, StartReason::IntervalPassed);
        local.apply(&Event::Started(run.clone()));
        let now = Now {
            boot: "boot".into(),
            since_boot_ms: 60_000,
            agent_start_ms: 60_000,
            wall_ms: 5,
            held_lock: HeldLock::Any,
            no_run_process: false,
            attached: true,
            link_age_ms: Some(0),
            leader_generation: None,
            is_leader_known: true,
            idle_ms: 0,
            charm: CharmOnDisk::Complete,
            commands: None,
        };
        let report = |number: u32| {
            let what = ReportContent::Log { level: Level::Info, text: number.to_string() };
            RunReport { number, at_ms: 5, what }
        };
        let lines: Vec<RunReport> = (1..=100).map(report).collect();
        let mut pending_reports = PendingReports::default();
        lines.iter().for_each(|line| pending_reports.push(line));
        let record_of = |exit, pending_reports: &PendingReports| {
            let result = HookResult { reports: lines.clone(), ..HookResult::without_writes(exit) };
            let finished = FinishedRun { run: &run, result, pending_reports, texts: TEXTS };
            record(&local, None, &now, finished).expect("it was not interrupted").reports
        };

        let failed = record_of(RunExit::Code(1), &pending_reports);
        let (here, about) = failed.split_at(55);
        assert_eq!(here, &lines[45..], "the newest lines");
        let about: Vec<(u32, &ReportContent)> =
            about.iter().map(|report| (report.number, &report.what)).collect();
        let printed = |level, text: &str| {
            let (run, text) = (Activity::hook(HookName::UpdateStatus), text.to_owned());
            ReportContent::Output { run, level, text }
        };
        let left_out = printed(Level::Warning, &omitted_lines(45, 7));
        assert_eq!(about, [(0, &left_out)]);

        pending_reports.acknowledge(45);
        assert_eq!(
            record_of(RunExit::Code(0), &pending_reports),
            lines[45..],
            "the others were delivered during the run"
        );
    }

    /// 1. The hook sets a status and requests an immediate reboot. 2. The agent kills it within 100 ms, before it
    ///    sends any report of a running hook. 3. The machine reboots; the hook runs again as another run, and its
    ///    record is sent.
    #[test]
    fn reports_of_a_hook_that_rebooted_immediately_are_sent_before_any_later_record() {
        let mut local = Local::new(Uuid(1), UnitName::new("web", 0));
        let now = Now { boot: "boot".to_owned(), since_boot_ms: 1, wall_ms: 5, ..Now::hypothetical() };
        let what = ReportContent::UnitStatus { status: WorkloadStatus::Blocked, message: String::new() };
        let reports = vec![RunReport { number: 1, at_ms: 5, what }];
        let started = |number| Run::new(number, Operation::Hook(Hook::Install), StartReason::CharmInstalled);
        let run = started(1);
        local.apply(&Event::Started(run.clone()));
        let writes = Writes { reboot: Some(Reboot::Now), ..Writes::default() };
        let pending_reports = PendingReports::default();
        let reports_of = reports.clone();
        let result =
            HookResult { writes, reports: reports_of, ..HookResult::without_writes(RunExit::Signal(9)) };
        let finished = FinishedRun { run: &run, result, pending_reports: &pending_reports, texts: TEXTS };
        events(&local, None, &now, finished).iter().for_each(|event| local.apply(event));
        assert_eq!(local.unrecorded_reports, [UnrecordedReport { run: 1, reports }]);
        assert_eq!(local.status, Some((WorkloadStatus::Blocked, String::new())), "later hooks read it");

        let now = Now { boot: "the next".to_owned(), ..now };
        local.apply(&Event::Started(started(2)));
        let record = local.record(Operation::Hook(Hook::Install), Outcome::Ok, 5);
        local.apply(&Event::Finished(record));
        let send = |local: &Local| next(local, None, &now).send;
        assert_eq!(send(&local), NextMessage::UnrecordedReport(1));
        local.apply(&Event::ReportAcknowledged { run: 1 });
        assert_eq!(send(&local), NextMessage::Commit(1));
    }

    /// Returns the failure of a run that printed these lines on stderr.
    fn reason(operation: Operation, exit: RunExit, stderr: &[&str]) -> FailureReason {
        let local = Local::new(Uuid(1), UnitName::new("web", 0));
        let now = Now { boot: "boot".to_owned(), since_boot_ms: 1, wall_ms: 5, ..Now::hypothetical() };
        let line = |text: &&str| RunReport {
            number: 1,
            at_ms: 5,
            what: ReportContent::Output {
                run: Activity::hook(HookName::Install),
                level: Level::Warning,
                text: (*text).to_owned(),
            },
        };
        let run = Run::new(1, operation, StartReason::CharmInstalled);
        let reports = stderr.iter().map(line).collect();
        let result = HookResult { reports, ..HookResult::without_writes(exit) };
        let finished =
            FinishedRun { run: &run, result, pending_reports: &PendingReports::default(), texts: TEXTS };
        let record = record(&local, None, &now, finished);
        let record = record.expect("it was not interrupted");
        let Outcome::Failed { reason, .. } = record.outcome else { panic!("{:?}", record.outcome) };
        reason
    }

    /// ops logs the traceback of a charm, and prints nothing.
    #[test]
    fn the_reason_of_a_failed_hook_without_stderr_is_the_end_of_its_last_logged_error() {
        let log = |level, text: &str| ReportContent::Log { level, text: text.to_owned() };
        let stderr = |text: &str| {
            let run = Activity::from(&Operation::Hook(Hook::Install));
            ReportContent::Output { run, level: Level::Warning, text: text.to_owned() }
        };
        let line = |reports: Vec<ReportContent>| {
            let numbered = reports.into_iter().zip(1..);
            let reports = numbered.map(|(what, number)| RunReport { number, at_ms: 0, what });
            last_error_line(&reports.collect::<Vec<_>>())
        };
        let traceback = log(Level::Error, "Traceback:\n  File \"charm.py\"\nops.ModelError: no space\n");
        let reports = [traceback, log(Level::Warning, "later"), log(Level::Error, " ")];
        assert_eq!(line(reports.to_vec()).as_deref(), Some("ops.ModelError: no space"));
        let printed = [vec![stderr("killed")], reports.to_vec()].concat();
        assert_eq!(line(printed).as_deref(), Some("killed"), "what is printed takes precedence");
        assert_eq!(line(vec![log(Level::Info, "fine")]), None);
    }

    #[test]
    fn the_reason_of_a_failed_hook_has_the_last_line_on_stderr() {
        let install = || Operation::Hook(Hook::Install);
        let exited = |lines: &[&str]| reason(install(), RunExit::Code(1), lines);
        let failure =
            |line: Option<&str>| FailureReason::Exit { code: 1, last_line: line.map(str::to_owned) };
        assert_eq!(exited(&["Traceback:", "  No space. ", "", " "]), failure(Some("No space.")));
        assert_eq!(exited(&[]), failure(None));
        assert_eq!(exited(&[&"é".repeat(201)]), failure(Some(&"é".repeat(200))));
        let killed = |lines: &[&str]| reason(install(), RunExit::Signal(9), lines);
        assert_eq!(killed(&[]), FailureReason::signal(9));
        assert_eq!(killed(&["bye"]), FailureReason::Signal { signal: 9, last_line: Some("bye".to_owned()) });
        let not_started = reason(install(), RunExit::Failed(FailureReason::CharmMissing), &["bye"]);
        assert_eq!(not_started, FailureReason::CharmMissing, "the charm did not run");
        let backup = Operation::Action { id: 1, name: "backup".to_owned() };
        assert_eq!(
            reason(backup, RunExit::Code(1), &["bye"]),
            FailureReason::exit(1),
            "clients match the message of an action"
        );
    }
}
