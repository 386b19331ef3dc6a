//! Why a record or an early report of a unit agent is refused as a whole, before any of it is stored (design 4; I30).

use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::refusal::code::Code;
use crate::terms::status::WorkloadStatus;
use serde::{Deserialize, Serialize};

/// A number that an agent counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Counter {
    /// The number of a run.
    Run,
    /// The sequence number of a record.
    Record,
}

/// Why a record or an early report of a unit agent is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RecordRefusal {
    /// A record with this sequence number and other content was applied before.
    OtherContent {
        /// The sequence number.
        sequence: u64,
    },
    /// The record follows another record than the one that was applied last.
    NotSuccessor {
        /// The sequence number.
        sequence: u64,
        /// The sequence number of the record that was applied last.
        applied: u64,
    },
    /// The records before this one are missing.
    RecordsMissing {
        /// The sequence number.
        sequence: u64,
        /// The sequence number that the controller needs next.
        expected: u64,
    },
    /// The record ends the unit, which is Alive. An agent whose unit was ended in a store generation that is lost has to
    /// attach first.
    UnitAlive {
        /// The unit.
        unit: UnitName,
        /// The sequence number.
        sequence: u64,
    },
    /// The record enters a relation under another number or endpoint.
    OtherRelation {
        /// The relation.
        relation: Uuid,
        /// The number in the record.
        number: RelationNumber,
        /// The endpoint in the record.
        endpoint: String,
    },
    /// A resync record has no state of the unit, or another record has one.
    ResyncStateMisplaced,
    /// The unit has resynchronised with this store generation a moment ago. The agent repeats the resync.
    ResyncRepeated {
        /// The least time between two resyncs.
        interval_ms: i64,
    },
    /// The hook belongs to a relation whose scope the unit never entered.
    ScopeNeverEntered {
        /// The relation.
        relation: RelationNumber,
    },
    /// The hook has another endpoint than the one through which the unit is in the relation.
    OtherEndpoint {
        /// The relation.
        relation: RelationNumber,
        /// The endpoint in the record.
        endpoint: String,
        /// The endpoint of the unit in the relation.
        entered: String,
    },
    /// The action was never queued for the unit.
    ActionNeverQueued {
        /// The number of the task.
        id: u64,
    },
    /// The state in the resync record is not a published state of this unit.
    StateNotPublished,
    /// The state in the resync record has too many relations.
    TooManyRelations {
        /// Their number.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// A relation-changed hook is pending for a unit that is no member.
    PendingHookOfNoMember,
    /// A number is further ahead of the last one than the protocol allows.
    TooFarAhead {
        /// What is counted.
        counter: Counter,
        /// The number.
        number: u64,
        /// The last number that was recorded.
        last: u64,
        /// The largest number that is allowed.
        max: u64,
    },
    /// A run has too many lines and statuses in one message.
    TooManyReports {
        /// Their number.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// A list is too long.
    ListTooLong {
        /// The number of its entries.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// The number of a report is too large.
    ReportNumberTooLarge {
        /// The number.
        number: u32,
        /// The largest number that is allowed.
        max: u32,
    },
    /// A name is too long or has control characters.
    InvalidName {
        /// The first characters of the name.
        name: String,
    },
    /// The name or the value of a relation setting contains NUL.
    NulInSetting {
        /// The first characters of the name of the setting.
        key: String,
    },
    /// A charm cannot set this status.
    ReservedStatus {
        /// The status.
        status: WorkloadStatus,
    },
    /// A line or a message is too long.
    TextTooLong {
        /// Its bytes.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// The outcome of an operation is nested too deeply.
    TooDeep {
        /// The number of maps and lists around its innermost value.
        depth: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// A number is out of range.
    NumberOutOfRange {
        /// The number, in digits.
        number: String,
        /// The largest number that is allowed.
        max: u64,
    },
}

impl RecordRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            RecordRefusal::OtherContent { .. } | RecordRefusal::NotSuccessor { .. } => Code::Forked,
            RecordRefusal::RecordsMissing { expected, .. } => Code::Gap { expected: *expected },
            RecordRefusal::UnitAlive { sequence, .. } => Code::Gap { expected: *sequence },
            RecordRefusal::OtherRelation { .. }
            | RecordRefusal::ResyncStateMisplaced
            | RecordRefusal::ResyncRepeated { .. }
            | RecordRefusal::ScopeNeverEntered { .. }
            | RecordRefusal::OtherEndpoint { .. }
            | RecordRefusal::ActionNeverQueued { .. }
            | RecordRefusal::StateNotPublished
            | RecordRefusal::TooManyRelations { .. }
            | RecordRefusal::PendingHookOfNoMember
            | RecordRefusal::TooFarAhead { .. }
            | RecordRefusal::TooManyReports { .. }
            | RecordRefusal::ListTooLong { .. }
            | RecordRefusal::ReportNumberTooLarge { .. }
            | RecordRefusal::InvalidName { .. }
            | RecordRefusal::NulInSetting { .. }
            | RecordRefusal::ReservedStatus { .. }
            | RecordRefusal::TextTooLong { .. }
            | RecordRefusal::TooDeep { .. }
            | RecordRefusal::NumberOutOfRange { .. } => Code::Invalid,
        }
    }
}
