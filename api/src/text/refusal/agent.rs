//! Refusals of what unit agents send, in English: of sessions, of records, and of the writes of a record.

use crate::text::refusal::refusal_text::{RefusalText, plain, with_hint};
use state::terms::refusal::record::{Counter, RecordRefusal};
use state::terms::refusal::session::SessionRefusal;
use state::terms::refusal::write::WriteRefusal;

pub(super) fn session(reason: &SessionRefusal) -> RefusalText {
    match reason {
        SessionRefusal::NilNonce => plain("a session's nonce is not nil"),
        SessionRefusal::OtherAgentConnected => with_hint(
            "cannot attach: another agent of this unit is connected",
            "stop the agent that runs in a copy of the unit's folder",
        ),
        SessionRefusal::EpochNotGranted { epoch } => plain(format!("epoch {epoch} was never granted")),
        SessionRefusal::EpochOfOtherGeneration { epoch, newest, .. } => plain(format!(
            "epoch {epoch} was granted by another store generation (the newest epoch is {newest}): attach again"
        )),
        SessionRefusal::NewerAgent { newest, epoch } => with_hint(
            format!("a newer agent of this unit has attached (epoch {newest}, this one is {epoch})"),
            "the folder of this agent is a copy, or an older state was put back into it",
        ),
        SessionRefusal::RemovedByForce => with_hint(
            "this unit is removed by force: the controller acts in its agent's place",
            "its machine agent removes the folder",
        ),
        SessionRefusal::UnitRemoved { name } => plain(format!("unit {name} was removed")),
        SessionRefusal::UnknownUnit { unit } => plain(format!("unit {unit} is unknown to the controller")),
    }
}

pub(super) fn record(reason: &RecordRefusal) -> RefusalText {
    let hint = match reason {
        RecordRefusal::OtherContent { .. } | RecordRefusal::NotSuccessor { .. } => {
            Some("two agents have written for this unit".to_owned())
        }
        _ => None,
    };
    RefusalText { message: record_message(reason), hint }
}

fn record_message(reason: &RecordRefusal) -> String {
    match reason {
        RecordRefusal::OtherContent { sequence } => {
            format!("record {sequence} was applied with another content")
        }
        RecordRefusal::NotSuccessor { sequence, applied } => {
            format!("record {sequence} does not follow the record {applied} that was applied")
        }
        RecordRefusal::RecordsMissing { sequence, expected } => {
            format!("record {sequence} came before record {expected}")
        }
        RecordRefusal::UnitAlive { unit, sequence } => {
            format!("cannot apply record {sequence}: it ends unit {unit}, which is alive; attach again")
        }
        RecordRefusal::OtherRelation { relation, number, endpoint } => {
            format!("relation {relation} is not relation {number} of endpoint {endpoint:?}")
        }
        RecordRefusal::ResyncStateMisplaced => {
            "a resync record must contain the state of the unit, and no other record may".to_owned()
        }
        RecordRefusal::ResyncRepeated { interval_ms } => {
            let minutes = interval_ms / 60_000;
            format!(
                "the unit has resynchronised with this store less than {minutes} minutes ago; its agent repeats it"
            )
        }
        RecordRefusal::ScopeNeverEntered { relation } => {
            format!("a hook of relation {relation}, whose scope the unit never entered")
        }
        RecordRefusal::OtherEndpoint { relation, endpoint, entered } => {
            format!(
                "a hook of endpoint {endpoint:?} in relation {relation}, which is at endpoint {entered:?}"
            )
        }
        RecordRefusal::ActionNeverQueued { id } => format!("action {id} was never queued for this unit"),
        RecordRefusal::StateNotPublished => {
            "the state in the resync record is not a published state of this unit".to_owned()
        }
        RecordRefusal::TooManyRelations { count, max } => {
            format!("the resync record has {count} relations, at most {max}")
        }
        RecordRefusal::PendingHookOfNoMember => {
            "the resync record has a pending relation-changed hook for a unit that is no member".to_owned()
        }
        RecordRefusal::TooFarAhead { counter, number, last, max } => {
            let what = match counter {
                Counter::Run => "run",
                Counter::Record => "record",
            };
            format!("{what} {number} is too far ahead of {what} {last}: at most {max}")
        }
        RecordRefusal::TooManyReports { count, max } => format!("{count} lines and statuses, at most {max}"),
        RecordRefusal::ReportNumberTooLarge { number, max } => {
            format!("report {number} of a run: at most {max}")
        }
        RecordRefusal::InvalidName { name } => {
            format!("the name {name:?} is too long or has control characters")
        }
        RecordRefusal::ListTooLong { count, max } => format!("a list of {count} entries, at most {max}"),
        RecordRefusal::NulInSetting { key } => {
            format!("relation setting {key:?} contains NUL, which no setting may contain")
        }
        RecordRefusal::ReservedStatus { status } => format!("a charm cannot set the status {status}"),
        RecordRefusal::TextTooLong { bytes, max } => {
            format!("a line or message of {bytes} bytes, at most {max}")
        }
        RecordRefusal::TooDeep { depth, max } => format!("an outcome of {depth} levels, at most {max}"),
        RecordRefusal::NumberOutOfRange { number, max } => {
            format!("the number {number} is out of range: at most {max}")
        }
    }
}

pub(super) fn write(reason: &WriteRefusal) -> String {
    match reason {
        WriteRefusal::NotLeader { unit, leader } => {
            let leader = match leader {
                Some(leader) if leader == unit => "it was not all the time".to_owned(),
                Some(leader) => format!("{leader} is"),
                None => "nobody is".to_owned(),
            };
            format!("cannot write application settings: {unit} is not the leader ({leader})")
        }
        WriteRefusal::LeaderOnly => "not the leader".to_owned(),
        WriteRefusal::Overtaken => {
            "cannot write leader settings: a copy of this unit's folder has written newer ones".to_owned()
        }
        WriteRefusal::InvalidLeaderSettings { problem } => problem.to_string(),
        WriteRefusal::UnknownEndpoint { unit, endpoint } => {
            format!("cannot open ports (unit \"{unit}\"): endpoint \"{endpoint}\" not found")
        }
        WriteRefusal::BagTooLarge { unit, relation, bytes, max } => {
            format!("{unit} cannot publish {bytes} bytes of settings in relation {relation}: at most {max}")
        }
        WriteRefusal::BagsTooLarge { unit, bytes, max } => {
            format!("{unit} cannot publish {bytes} bytes of settings at once: at most {max}")
        }
        WriteRefusal::PortConflict { unit, range, other, other_range } => format!(
            "cannot open {range} (unit \"{unit}\"): port range conflicts with {other_range} (unit \"{other}\")"
        ),
    }
}
