//! The reports of a run (statuses, log lines, workload version) and the statuses that are derived from records
//! (design 4, spec C.4).
//!
//! Every report is numbered by (run, call). The status with the highest number is stored, and a log line that
//! is sent twice is stored once. Called by the commit of records and of early reports.

use crate::documents::draft::{Draft, Key};
use crate::documents::prelude::{
    LogDoc, LogSource, Model, ReportNumber, StatusChange, StatusDoc, SubjectStatus, UnitDoc,
};
use crate::terms::activity::Activity;
use crate::terms::hook_name::HookName;
use crate::terms::names::Uuid;
use crate::terms::operation::{Hook, Operation};
use crate::terms::refusal::RefusalReason;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;
use crate::unit::hook_context::{Level, ReportContent};
use crate::unit::hook_log::HookEnd;
use crate::unit::local::{Episode, FollowUp, Local};
use crate::unit::record::{DroppedWrite, Outcome, Record, RunReport};
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of the report with which the agent sets a status when a run has finished: higher than those of all reports
/// of the run.
pub const AFTER_RUN: u32 = u32::MAX;

/// The number of a status that the agent sets before the charm is called in a run.
fn before_run(run: u64) -> ReportNumber {
    ReportNumber { run, report: 0 }
}

/// The number of a status that the agent sets when a run has finished.
fn after_run(run: u64) -> ReportNumber {
    ReportNumber { run, report: AFTER_RUN }
}

/// Whether the log lines of one message are stored. The controller decides it before the transition, from what the unit
/// has stored since its log was last measured, so that a flood of lines cannot grow the store faster than the janitor
/// deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLines {
    /// All of them. The first one is followed by a line that states how many earlier lines were dropped, if there are any.
    Stored {
        /// The lines of earlier messages that were dropped, and that no stored line states yet.
        dropped_before: u64,
    },
    /// None of them.
    Dropped,
}

impl LogLines {
    /// All lines are stored, and none was dropped before.
    pub const ALL: LogLines = LogLines::Stored { dropped_before: 0 };
}

/// Returns the number of log lines that a record can store.
pub fn record_line_count(record: &Record) -> u64 {
    log_line_count(&record.reports) + u64::from(record.hook_log.is_some())
}

/// Returns the number of log lines in these reports.
pub fn log_line_count(reports: &[RunReport]) -> u64 {
    let is_line =
        |report: &&RunReport| matches!(report.what, ReportContent::Log { .. } | ReportContent::Output { .. });
    reports.iter().filter(is_line).count() as u64
}

/// Reports of one run.
#[derive(Clone, Debug)]
pub struct ReportsOfRun<'a> {
    /// The number of the run.
    pub run: u64,
    /// The reports in the order of their calls.
    pub reports: &'a [RunReport],
    /// What is logged about the end of the run.
    pub end: Option<LoggedEnd>,
}

/// What is logged about the end of the run of a hook.
#[derive(Clone, Debug)]
pub struct LoggedEnd {
    /// When the hook ended.
    at_ms: i64,
    /// The severity.
    level: Level,
    /// The hook and its end.
    source: LogSource,
}

impl LoggedEnd {
    /// What is logged about the end of a record; `refused` is why its writes were refused. None if it is below the level
    /// of the model, or the record is not that of a hook that ran.
    pub(crate) fn of(record: &Record, refused: Option<&RefusalReason>) -> Option<LoggedEnd> {
        let (Operation::Hook(hook), Some(log)) = (&record.operation, record.hook_log) else { return None };
        let end = HookEnd::of(&record.operation, &record.outcome, refused)?;
        let (at_ms, level) = (record.at_ms, end.level());
        let source = LogSource::HookEnd { hook: hook.name(), handler: log.handler, end };
        (level >= log.lowest).then_some(LoggedEnd { at_ms, level, source })
    }
}

/// A record that was refused as a whole.
#[derive(Clone, Copy, Debug)]
pub struct RefusedRecord<'a> {
    /// The number of the record.
    pub sequence: u64,
    /// The number of its run.
    pub run: u64,
    /// Why it was refused.
    pub reason: &'a RefusalReason,
}

/// Stores reports of a run. Returns the writes that are dropped:
/// application statuses of a unit that is not the leader.
pub(crate) fn apply(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    reports: ReportsOfRun,
    mut log_lines: LogLines,
) -> Vec<DroppedWrite> {
    let ReportsOfRun { run, reports, end } = reports;
    let mut dropped = Vec::new();
    let mut put_line =
        |draft: &mut Draft, number: u32, at_ms: i64, source: LogSource, level: Level, text: &str| {
            let LogLines::Stored { dropped_before } = &mut log_lines else { return };
            let line = |source, level, text| LogDoc { at_ms, level, unit: doc.name.clone(), source, text };
            let lines = std::mem::take(dropped_before);
            if lines > 0 {
                let dropped = line(LogSource::DroppedLines(lines), Level::Warning, String::new());
                draft.put_once(&model.dropped_lines(unit, run, number), &dropped);
            }
            draft.put_once(&model.log(unit, run, number), &line(source, level, text.to_owned()));
        };
    for RunReport { number, at_ms, what } in reports {
        let mut log = |source: LogSource, level: &Level, text: &str| {
            put_line(draft, *number, *at_ms, source, *level, text);
        };
        match what {
            ReportContent::Log { level, text } => log(LogSource::JujuLog, level, text),
            ReportContent::Output { run, level, text } => log(LogSource::Run(run.clone()), level, text),
            ReportContent::UnitStatus { status, message } => {
                let message = StatusMessage::OfCharm(message.clone());
                let status = status_doc(*status, message, *at_ms, ReportNumber { run, report: *number });
                put_workload_status(draft, model, unit, &status);
            }
            ReportContent::ApplicationStatus { status, message } => {
                let grant = draft.get(&model.leader(doc.application));
                match grant.filter(|grant| grant.holder == unit) {
                    // Run numbers of different leaders are not comparable; the generations of their grants are.
                    Some(grant) => {
                        // A run has fewer than 40 bits; beyond 2^24 generations the runs alone are compared.
                        let generation = grant.generation.min((1 << 24) - 1);
                        let number = ReportNumber { run: (generation << 40) | run, report: *number };
                        let message = StatusMessage::OfCharm(message.clone());
                        let status = status_doc(*status, message, *at_ms, number);
                        let application = doc.application;
                        if put_newer(draft, &model.application_status(application), &status) {
                            add_to_status_log(draft, model, application, &status, SubjectStatus::Application);
                        }
                    }
                    None => dropped.push(DroppedWrite::ApplicationStatus { unit: doc.name.clone() }),
                }
            }
            ReportContent::WorkloadVersion(version) => put_version(draft, model, unit, version),
            ReportContent::ActionLog(_) => {}
        }
    }
    if let Some(LoggedEnd { at_ms, level, source }) = end {
        put_line(draft, AFTER_RUN, at_ms, source, level, "");
    }
    dropped
}

fn put_version(draft: &mut Draft, model: Model, unit: Uuid, version: &String) {
    let key = model.workload_version(unit);
    if draft.get(&key).as_ref() != Some(version) {
        draft.put(&key, version);
    }
}

/// Stores the last status and workload version of a unit that resynchronises (cargo sim 53003374: a unit that
/// had reported active was shown as waiting for its machine).
pub(crate) fn resync_status(draft: &mut Draft, model: Model, unit: Uuid, record: &Record, published: &Local) {
    if let Some((status, message)) = &published.status {
        let message = StatusMessage::OfCharm(message.clone());
        let status = status_doc(*status, message, record.at_ms, after_run(record.run));
        put_workload_status(draft, model, unit, &status);
    }
    if !published.workload_version.is_empty() {
        put_version(draft, model, unit, &published.workload_version);
    }
}

fn status_doc<S>(status: S, message: StatusMessage, since_ms: i64, number: ReportNumber) -> StatusDoc<S> {
    StatusDoc { status, message, data: BTreeMap::new(), since_ms, number }
}

fn put_workload_status(draft: &mut Draft, model: Model, unit: Uuid, status: &StatusDoc) {
    if put_newer(draft, &model.unit_status(unit), status) {
        add_to_status_log(draft, model, unit, status, SubjectStatus::Workload);
    }
}

fn put_agent_status(draft: &mut Draft, model: Model, unit: Uuid, status: &StatusDoc<AgentStatus>) {
    draft.put(&model.agent_status(unit), status);
    add_to_status_log(draft, model, unit, status, SubjectStatus::Agent);
}

/// Adds a status to the status log of its entity.
fn add_to_status_log<S: Copy>(
    draft: &mut Draft,
    model: Model,
    entity: Uuid,
    status: &StatusDoc<S>,
    subject: impl Fn(S) -> SubjectStatus,
) {
    let key = model.status_log(entity);
    let mut log = draft.get(&key).unwrap_or_default();
    let message = status.message.clone();
    let change = StatusChange { since_ms: status.since_ms, status: subject(status.status), message };
    if log.add(change) {
        draft.put(&key, &log);
    }
}

/// Stores a status unless a newer or an equal one is stored; returns whether it was. A status with the same number and
/// another content replaces the stored one:
///
/// 1. A folder is copied while its agent attaches.
/// 2. Run 8 of the copy reports a status and has no record: the copy is fenced.
/// 3. The record of the original's run 8 reports another status with the same number, which is the valid one
///    (cargo sim 66130146).
fn put_newer(draft: &mut Draft, key: &Key<StatusDoc>, status: &StatusDoc) -> bool {
    let content = |status: &StatusDoc| (status.number, status.status, status.message.clone());
    let is_outdated = draft
        .get(key)
        .is_some_and(|stored| stored.number > status.number || content(&stored) == content(status));
    if !is_outdated {
        draft.put(key, status);
    }
    !is_outdated
}

/// Whether the charm itself set the status: the calls of a hook are numbered from 1.
fn is_set_by_charm(status: &StatusDoc) -> bool {
    !matches!(status.number.report, 0 | AFTER_RUN)
}

/// The workload status that the agent sets before `hook` runs, even if the hook then fails; a status that the
/// hook sets has a higher number (spec C.4).
fn status_before(hook: &HookName) -> Option<(WorkloadStatus, StatusMessage)> {
    match hook {
        HookName::Stop => Some((WorkloadStatus::Maintenance, StatusMessage::StoppingCharm)),
        HookName::Remove => Some((WorkloadStatus::Maintenance, StatusMessage::RemovingCharm)),
        HookName::Install
        | HookName::LeaderElected
        | HookName::LeaderSettingsChanged
        | HookName::ConfigChanged
        | HookName::Start
        | HookName::UpgradeCharm
        | HookName::UpdateStatus
        | HookName::Relation { .. }
        | HookName::Secret(_)
        | HookName::Storage { .. } => None,
    }
}

/// Stores the workload status of a run that has started.
pub(crate) fn set_executing(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    run: u64,
    activity: &Activity,
    at_ms: i64,
) {
    if let Activity::Hook { name, .. } = activity
        && let Some((status, message)) = status_before(name)
    {
        put_workload_status(draft, model, unit, &status_doc(status, message, at_ms, before_run(run)));
    }
}

/// Stores an agent status of error for a record that can never be applied. The next record that is applied
/// replaces the status.
pub(crate) fn set_refused(draft: &mut Draft, model: Model, unit: Uuid, record: RefusedRecord, at_ms: i64) {
    let RefusedRecord { sequence, run, reason } = record;
    let message = StatusMessage::RecordRefused { sequence, reason: Box::new(reason.clone()) };
    let key = model.agent_status(unit);
    if draft.get(&key).is_none_or(|known| known.message != message) {
        put_agent_status(draft, model, unit, &status_doc(AgentStatus::Error, message, at_ms, after_run(run)));
    }
}

/// Stores the statuses that follow from an applied record: the status of the agent, and the workload statuses
/// that the agent sets around install, start, stop and remove (spec C.4). `local` is the state of the unit
/// after the record.
pub(crate) fn derive_statuses(draft: &mut Draft, model: Model, unit: Uuid, record: &Record, local: &Local) {
    let after = agent_status(record, local);
    let key = model.agent_status(unit);
    let before = draft.get(&key).unwrap_or_default();
    if (&before.status, &before.message, &before.data) != (&after.status, &after.message, &after.data) {
        put_agent_status(draft, model, unit, &after);
    }
    if let (Outcome::Failed { .. }, Operation::Hook(hook)) = (&record.outcome, &record.operation)
        && let Some((status, message)) = status_before(&hook.name())
    {
        let status = status_doc(status, message, record.at_ms, before_run(record.run));
        put_workload_status(draft, model, unit, &status);
    }
    // 1. A hook sets the status blocked and calls juju-reboot --now: the status is reported early and is in no
    //    record.
    // 2. The hook runs again and sets no status. The replica then contains no status, but the stored status was set
    //    by the charm and must not be replaced.
    let set_by_charm = local.status_set
        || draft.get(&model.unit_status(unit)).is_some_and(|status| is_set_by_charm(&status));
    if let Some((status, message)) = workload_status(record, local, set_by_charm) {
        let status = status_doc(status, message, record.at_ms, after_run(record.run));
        put_workload_status(draft, model, unit, &status);
    }
}

fn agent_status(record: &Record, local: &Local) -> StatusDoc<AgentStatus> {
    let number = after_run(record.run);
    if let Some(episode) = local.episode() {
        let (message, data) = failure_status(episode, local);
        return StatusDoc { status: AgentStatus::Error, message, data, since_ms: record.at_ms, number };
    }
    let as_reported = |status, message| status_doc(status, message, record.at_ms, number);
    if local.reboot.is_some() {
        return as_reported(AgentStatus::Rebooting, StatusMessage::Empty);
    }
    let next = match (&local.follow_up, &record.operation) {
        (Some(FollowUp::Install), _) => Some(HookName::Install),
        (Some(FollowUp::LeaderElected), _) => Some(HookName::LeaderElected),
        (Some(FollowUp::Start), _) => Some(HookName::Start),
        (Some(FollowUp::UpgradeCharm), _) => Some(HookName::UpgradeCharm),
        (Some(FollowUp::ConfigChanged), _) => Some(HookName::ConfigChanged),
        (None, Operation::Hook(Hook::Install)) => Some(HookName::ConfigChanged),
        (None, Operation::Hook(Hook::Stop)) => Some(HookName::Remove),
        (None, _) => None,
    };
    match next {
        Some(hook) => as_reported(AgentStatus::Executing, StatusMessage::Executing(Activity::hook(hook))),
        None => as_reported(AgentStatus::Idle, StatusMessage::of_skipped_hooks(&local.skipped)),
    }
}

/// The message of a failed operation, with data that identify the relation and the remote unit (spec A.8).
fn failure_status(episode: &Episode, local: &Local) -> (StatusMessage, BTreeMap<String, Value>) {
    let Operation::Hook(hook) = &episode.operation else {
        let operation = Box::new(episode.operation.clone().without_payload());
        let reason = episode.reason.clone();
        return (StatusMessage::OperationFailed { operation, reason }, BTreeMap::new());
    };
    let mut data = BTreeMap::from([("hook".to_owned(), Value::from(hook.name().to_string()))]);
    if let Hook::Relation { relation, endpoint, event } = hook {
        data.insert("relation-id".to_owned(), Value::from(*relation));
        data.insert("endpoint".to_owned(), Value::from(endpoint.as_str()));
        if let Some(remote) = event.remote_unit() {
            data.insert("remote-unit".to_owned(), Value::from(remote.to_string()));
        }
        if let Some(known) = local.relations.get(relation) {
            let application = known.local_endpoint.remote_application.as_str();
            data.insert("remote-application".to_owned(), Value::from(application));
        }
    }
    (StatusMessage::HookFailed { hook: hook.name() }, data)
}

/// The workload status that the agent sets after an operation, if any. It describes the next operation, because
/// a record is sent when its operation has finished. A skipped operation sets none (spec A.8). `set_by_charm` is
/// whether the charm has set a status itself.
fn workload_status(
    record: &Record,
    local: &Local,
    set_by_charm: bool,
) -> Option<(WorkloadStatus, StatusMessage)> {
    match (&record.outcome, &record.operation) {
        (Outcome::Failed { .. } | Outcome::Skipped, _) => None,
        (_, Operation::InstallCharm(_)) if !local.installed && !set_by_charm => {
            Some((WorkloadStatus::Maintenance, StatusMessage::InstallingCharm))
        }
        (_, Operation::Hook(Hook::Start { .. })) if !set_by_charm => {
            Some((WorkloadStatus::Unknown, StatusMessage::Empty))
        }
        (_, Operation::Hook(Hook::Stop)) => Some((WorkloadStatus::Maintenance, StatusMessage::RemovingCharm)),
        (_, Operation::Hook(Hook::Remove)) => Some((WorkloadStatus::Terminated, StatusMessage::Empty)),
        _ => None,
    }
}
