//! Validates what the agent of a unit sends before any of it is stored: every number, name and status is compared
//! with what the controller has granted, or with what the protocol makes possible (I30; spec/security.md).
//!
//! An agent is not trusted: a person who controls one unit can send any record with its token. A value that no correct
//! agent sends is refused as invalid, and nothing is written. The bounds leave room for an agent after the restore
//! of a backup, which has passed numbers that the restored store does not contain: see
//! [`resync`](crate::restore::resync) and [`action`](crate::lifecycle::action).
//!
//! What needs no document is validated once per request, before it is enqueued for the writer: a record can have 4 MiB,
//! and a resync is applied in more than a hundred transactions. [`Valid`] is the proof, which the transitions take. They
//! compare the rest with documents that they have read anyway, because the largest records take nearly all reads of a
//! transaction.

use crate::agents::json_measure::JsonMeasure;
use crate::agents::own_bags::strip_own_bags;
use crate::agents::record_bounds::{
    require_bounded, require_identifier, require_status, require_text, shown,
};
use crate::documents::draft::BYTES_MAX;
use crate::documents::prelude::{ReplicaDoc, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::terms::activity::Activity;
use crate::terms::names::Uuid;
use crate::terms::operation::{Hook, Operation};
use crate::terms::refusal::record::{Counter, RecordRefusal};
use crate::terms::refusal::transaction::TransactionRefusal;
use crate::unit::hook_context::ReportContent;
use crate::unit::local::Local;
use crate::unit::record::{REPORTS_MAX, Record, RunReport};

/// What the last batch of a resync writes beside the published state and the reports: the outcome and its digest in the
/// replica, some ten statuses and indexes, and the keys of 60 reports: 16 KiB.
const REPLICA_BYTES: usize = 16 << 10;
use serde::Serialize;
use std::ops::Deref;

/// The largest absolute value of a number in a message of an agent: 2^53, up to which every JSON reader is exact. As
/// milliseconds it is the year 287396, so that sums and differences of times never overflow.
pub const NUMBER_MAX: u64 = 1 << 53;

/// The largest run and sequence number: the ten digits of the keys of log lines. A run a second takes 317 years.
const RUN_MAX: u64 = 9_999_999_999;

/// How far the number of a run may be ahead of the last one that was recorded. Every attempt at an operation has
/// a number; an attempt without a record was interrupted, and only reboots that a hook requests can interrupt it any
/// number of times: 2^20 are a reboot a second for 12 days. The same limit holds for the runs of an agent between the
/// backup of a restored store and its resync.
pub const RUNS_AHEAD_MAX: u64 = 1 << 20;

/// How far the numbers of a resync record may be ahead of the store: what a unit has run since the backup. A run a
/// second takes 3 years; sequence numbers are not larger than run numbers.
pub const RESYNC_AHEAD_MAX: u64 = 100_000_000;

/// How many actions a restored store may have lost: one a second for 12 days.
pub const ACTIONS_LOST_MAX: u64 = 1 << 20;

/// How many sessions of one unit a restored store may have lost: one a second for 12 days.
pub const SESSIONS_LOST_MAX: u64 = 1 << 20;

/// The most bytes of an activity: two names of at most 255 bytes, of a hook and of a remote unit, with the fields around
/// them.
pub(crate) const ACTIVITY_BYTES_MAX: usize = 1_024;

/// A message of an agent that was validated as far as no document is needed.
#[derive(Clone, Debug)]
pub struct Valid<T>(T);

impl<T> Deref for Valid<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a unit agent reports of a run before it has finished.
#[derive(Clone, Debug)]
pub struct EarlyReport {
    /// The number of the run.
    pub run: u64,
    /// The reports in the order of their calls.
    pub reports: Vec<RunReport>,
    /// What has started; none if that was reported before.
    pub executing: Option<Activity>,
    /// For how long it had been running when the report was sent.
    pub executing_for_ms: u64,
}

impl Valid<Record> {
    /// Refuses a record that no correct agent sends, whatever the store contains.
    ///
    /// # Errors
    /// If a count, number, text, status, name or setting is not one that a correct agent sends, or the state of a resync is
    /// missing, misplaced, not a published one, or larger than a transaction.
    pub fn record(record: Record) -> Result<Valid<Record>, Refusal> {
        require_reports(&record.reports)?;
        let resync = record.resync_local.as_deref();
        if resync.is_some() != (record.operation == Operation::Resync) {
            return Err(RecordRefusal::ResyncStateMisplaced.into());
        }
        require_bounded(&record)?;
        if let Some(published) = resync {
            require_published(published, &record.reports)?;
        }
        require_numbers(&record)?;
        Ok(Valid(record))
    }
}

impl Valid<EarlyReport> {
    /// Refuses an early report that no correct agent sends, whatever the store contains.
    ///
    /// # Errors
    /// If a count, number, text or status exceeds its bound.
    pub fn report(report: EarlyReport) -> Result<Valid<EarlyReport>, Refusal> {
        require_reports(&report.reports)?;
        require_numbers(&(&report.reports, report.executing_for_ms))?;
        report.executing.as_ref().map_or(Ok(()), require_activity)?;
        Ok(Valid(report))
    }
}

/// Refuses a record that no correct agent sends to this unit's replica; applying it would violate what `Local` asserts,
/// or affect other entities than the unit.
pub(crate) fn validate(
    unit: Uuid,
    doc: &UnitDoc,
    stored: &ReplicaDoc,
    record: &Valid<Record>,
) -> Result<(), Refusal> {
    let resync = record.resync_local.as_deref();
    let ahead = if resync.is_some() { RESYNC_AHEAD_MAX } else { RUNS_AHEAD_MAX };
    require_ahead(Counter::Run, record.run, stored.local.run, ahead)?;
    require_ahead(Counter::Record, record.sequence, stored.local.sequence, ahead)?;
    if let Some(published) = resync {
        if published.unit != unit || published.name != doc.name {
            return Err(RecordRefusal::StateNotPublished.into());
        }
        require_ahead(Counter::Run, published.run, stored.local.run, RESYNC_AHEAD_MAX)?;
    }
    match &record.operation {
        Operation::Hook(Hook::Relation { relation, endpoint, .. }) => {
            match stored.local.relations.get(relation) {
                None => Err(RecordRefusal::ScopeNeverEntered { relation: *relation }.into()),
                Some(known) if known.local_endpoint.endpoint != *endpoint => {
                    let entered = known.local_endpoint.endpoint.clone();
                    let (relation, endpoint) = (*relation, shown(endpoint));
                    Err(RecordRefusal::OtherEndpoint { relation, endpoint, entered }.into())
                }
                Some(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Refuses a run that is too far ahead of `last_run`, the last run that was recorded.
pub(crate) fn require_run(last_run: u64, run: u64) -> Result<(), Refusal> {
    require_ahead(Counter::Run, run, last_run, RUNS_AHEAD_MAX)
}

/// Refuses an activity that is longer than one of a correct agent: `status` shows it to everyone.
fn require_activity(activity: &Activity) -> Result<(), Refusal> {
    let bytes = serde_json::to_vec(activity).map_or(0, |text| text.len());
    if bytes > ACTIVITY_BYTES_MAX {
        return Err(RecordRefusal::TextTooLong { bytes, max: ACTIVITY_BYTES_MAX }.into());
    }
    Ok(())
}

/// Refuses an action whose number is too far ahead of `last`, the last number that was granted in the model. A lower number
/// is accepted without a document, because a restored store may have lost the action.
pub(crate) fn require_lost_action(id: u64, last: u64) -> Result<(), Refusal> {
    if id > last.saturating_add(ACTIONS_LOST_MAX) {
        return Err(RecordRefusal::ActionNeverQueued { id }.into());
    }
    Ok(())
}

/// Refuses the state of a resync record that is not a published state of the unit.
fn require_published(published: &Local, reports: &[RunReport]) -> Result<(), Refusal> {
    if !published.outbox.is_empty() || !published.unrecorded_reports.is_empty() {
        return Err(RecordRefusal::StateNotPublished.into());
    }
    let has_pending_hook_without_member = published
        .relations
        .values()
        .any(|known| known.pending_changed.as_ref().is_some_and(|unit| !known.members.contains_key(unit)));
    if has_pending_hook_without_member {
        return Err(RecordRefusal::PendingHookOfNoMember.into());
    }
    // Without this check: 1. A state that is too large is applied in more than a hundred batches. 2. The last one, which stores it, is
    // refused. 3. The agent sends it again.
    let mut stored = published.clone();
    strip_own_bags(&mut stored);
    let json = |bytes: serde_json::Result<Vec<u8>>| bytes.map_or(0, |text| text.len());
    let bytes = json(serde_json::to_vec(&stored)) + json(serde_json::to_vec(reports)) + REPLICA_BYTES;
    if bytes > BYTES_MAX {
        return Err(Refusal::from(TransactionRefusal::TooLarge { bytes, max: BYTES_MAX }));
    }
    Ok(())
}

/// Refuses a number that is further ahead of the last one than the protocol makes possible.
fn require_ahead(counter: Counter, number: u64, last: u64, ahead: u64) -> Result<(), Refusal> {
    let max = last.saturating_add(ahead).min(RUN_MAX);
    if number > max {
        return Err(RecordRefusal::TooFarAhead { counter, number, last, max }.into());
    }
    Ok(())
}

/// Refuses reports that no correct agent sends.
fn require_reports(reports: &[RunReport]) -> Result<(), Refusal> {
    if reports.len() > REPORTS_MAX {
        return Err(RecordRefusal::TooManyReports { count: reports.len(), max: REPORTS_MAX }.into());
    }
    for RunReport { number, what, .. } in reports {
        // the highest number is that of the status which the agent sets after the run
        if *number == u32::MAX {
            return Err(RecordRefusal::ReportNumberTooLarge { number: *number, max: u32::MAX - 1 }.into());
        }
        match what {
            ReportContent::UnitStatus { status, message }
            | ReportContent::ApplicationStatus { status, message } => {
                require_status(*status)?;
                require_text(message)?;
            }
            ReportContent::Output { run, text, .. } => {
                require_activity(run)?;
                let name = match run {
                    Activity::Hook { name, .. } => name.to_string(),
                    Activity::Action { name, .. } => name.clone(),
                    Activity::EnterScope { endpoint, .. } => endpoint.clone(),
                    Activity::InstallCharm
                    | Activity::LeaveScope { .. }
                    | Activity::Commands
                    | Activity::Resync
                    | Activity::SetDead => String::new(),
                };
                require_identifier(&name)?;
                require_text(text)?;
            }
            ReportContent::Log { text, .. }
            | ReportContent::ActionLog(text)
            | ReportContent::WorkloadVersion(text) => require_text(text)?,
        }
    }
    Ok(())
}

/// Refuses a message with a number beyond [`NUMBER_MAX`] in any field, so that fields that are added later are
/// checked, too.
fn require_numbers(message: &impl Serialize) -> Result<(), Refusal> {
    match JsonMeasure::of(message, NUMBER_MAX).too_large {
        Some(number) => Err(RecordRefusal::NumberOutOfRange { number, max: NUMBER_MAX }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::record_bounds::REPORT_BYTES_MAX;
    use crate::documents::refusal::Code;
    use crate::terms::names::UnitName;
    use crate::terms::operation::LocalEndpoint;
    use crate::terms::refusal::RefusalReason;
    use crate::terms::settings::BagChange;
    use crate::terms::status::WorkloadStatus;
    use crate::unit::hook_context::Level;
    use crate::unit::record::{CommitOutcome, Outcome};
    use crate::unit::writes::BagWrites;

    fn unit() -> (UnitDoc, ReplicaDoc) {
        let name = UnitName::new("web", 0);
        let doc = UnitDoc {
            name: name.clone(),
            application: Uuid(2),
            machine: Uuid(3),
            principal: None,
            subordinate_link: None,
            created_ms: 1,
        };
        let stored = ReplicaDoc {
            outcome: CommitOutcome::default(),
            assigned_archive: None,
            resync_ms: None,
            local: Local::new(Uuid(1), name),
        };
        (doc, stored)
    }

    /// The refusal of the first record of a unit after `change`.
    fn refusal(change: impl FnOnce(&mut Record)) -> Option<RefusalReason> {
        let (doc, stored) = unit();
        let mut record = stored.local.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok, 5);
        change(&mut record);
        let validated = Valid::record(record);
        let refused = validated.and_then(|record| validate(Uuid(1), &doc, &stored, &record)).err()?;
        assert_eq!(refused.code(), Code::Invalid);
        Some(*refused.reason)
    }

    fn report(what: ReportContent) -> impl FnOnce(&mut Record) {
        |record| record.reports.push(RunReport { number: 1, at_ms: 5, what })
    }

    #[test]
    fn numbers_are_bounded_by_what_the_protocol_makes_possible() {
        assert_eq!(refusal(|_| ()), None);
        assert_eq!(refusal(|record| record.run = RUNS_AHEAD_MAX), None);
        let (number, max) = (RUNS_AHEAD_MAX + 1, RUNS_AHEAD_MAX);
        let too_far = RecordRefusal::TooFarAhead { counter: Counter::Run, number, last: 0, max };
        assert_eq!(refusal(|record| record.run = number), Some(too_far.into()));
        let out_of_range = RecordRefusal::NumberOutOfRange { number: i64::MIN.to_string(), max: NUMBER_MAX };
        assert_eq!(refusal(|record| record.at_ms = i64::MIN), Some(out_of_range.into()));
        assert!(refusal(|record| record.episode = Some(1 << 62)).is_some(), "in every field");
    }

    /// A charm could not be given such a setting: an argument and a variable end at NUL.
    #[test]
    fn relation_settings_with_nul_are_refused_wherever_a_record_has_them() {
        let bag = |key: &str, value: &str| BagChange::from([(key.to_owned(), value.to_owned())]);
        let written = |bags: BagWrites| refusal(|record| drop(record.writes.bags.insert(1, bags)));
        let unit = |unit| BagWrites { unit, ..BagWrites::default() };
        assert_eq!(written(unit(bag("a", "b\n"))), None);
        let refused = RecordRefusal::NulInSetting { key: "a".to_owned() };
        assert_eq!(written(unit(bag("a", "b\0"))), Some(refused.into()));
        assert!(written(unit(bag("a\0", ""))).is_some());
        assert!(written(BagWrites { application: bag("a", "\0"), ..BagWrites::default() }).is_some());
        let entered = |settings| {
            refusal(|record| {
                record.operation = Operation::EnterScope {
                    relation: 1,
                    uuid: Uuid(5),
                    local_endpoint: LocalEndpoint {
                        endpoint: "db".to_owned(),
                        interface: "pg".to_owned(),
                        peer: false,
                        implicit: false,
                        remote_application: "db".to_owned(),
                    },
                    settings,
                };
            })
        };
        assert_eq!(entered(bag("a", "b")), None);
        assert!(entered(bag("a", "\0")).is_some());
    }

    #[test]
    fn a_resync_may_be_ahead_of_the_store_by_what_a_unit_runs_in_years() {
        let resync = |ahead: u64| {
            refusal(|record| {
                record.operation = Operation::Resync;
                record.sequence = ahead;
                let (_, stored) = unit();
                record.resync_local = Some(Box::new(Local { run: ahead, ..stored.local }));
            })
        };
        assert_eq!(resync(RESYNC_AHEAD_MAX), None);
        assert!(resync(RESYNC_AHEAD_MAX + 1).is_some());
    }

    /// Numbers are searched in all reports: too many reports are refused before that.
    #[test]
    fn reports_are_counted_before_they_are_examined() {
        let what = ReportContent::ActionLog(String::new());
        let mut reports = vec![RunReport { number: 1, at_ms: 5, what }; REPORTS_MAX + 1];
        reports[0].at_ms = i64::MIN;
        let refused = RecordRefusal::TooManyReports { count: REPORTS_MAX + 1, max: REPORTS_MAX };
        let early = EarlyReport { run: 1, reports: reports.clone(), executing: None, executing_for_ms: 0 };
        let early = Valid::report(early).err().map(|refused| *refused.reason);
        assert_eq!(early, Some(refused.clone().into()));
        assert_eq!(refusal(|record| record.reports = reports), Some(refused.into()));
    }

    #[test]
    fn the_state_of_a_resync_fits_into_a_transaction() {
        let resync = |bytes: usize| {
            refusal(|record| {
                let mut local = Local::new(Uuid(1), UnitName::new("web", 0));
                local.charm_state.insert("k".to_owned(), "v".repeat(bytes));
                record.operation = Operation::Resync;
                record.resync_local = Some(Box::new(local));
            })
        };
        assert_eq!(resync(BYTES_MAX / 2), None);
        let refused = resync(BYTES_MAX);
        assert!(
            matches!(refused, Some(RefusalReason::Transaction(TransactionRefusal::TooLarge { .. }))),
            "{refused:?}"
        );
    }

    #[test]
    fn an_action_that_a_restore_lost_has_a_number_soon_after_the_last_one() {
        assert_eq!(require_lost_action(7 + ACTIONS_LOST_MAX, 7), Ok(()));
        let refused = require_lost_action(u64::MAX, 7).expect_err("it was never queued");
        assert_eq!(*refused.reason, RecordRefusal::ActionNeverQueued { id: u64::MAX }.into());
    }

    #[test]
    fn statuses_and_names_are_those_that_the_hook_tools_accept() {
        let status = |status| ReportContent::UnitStatus { status, message: String::new() };
        assert_eq!(refusal(report(status(WorkloadStatus::Active))), None);
        let reserved = RecordRefusal::ReservedStatus { status: WorkloadStatus::Terminated };
        assert_eq!(refusal(report(status(WorkloadStatus::Terminated))), Some(reserved.into()));
        let output = |name: &str| ReportContent::Output {
            run: Activity::Action { id: 1, name: name.to_owned() },
            level: Level::Info,
            text: "text".to_owned(),
        };
        assert_eq!(refusal(report(output("backup"))), None);
        assert!(refusal(report(output("backup\nunit-web-1"))).is_some());
        assert!(refusal(report(ReportContent::ActionLog("x".repeat(REPORT_BYTES_MAX + 1)))).is_some());
    }
}
