//! The reasons why the unit agent ends, and the reactions of its loops to a failed request.
//!
//! This module maps the error codes of the controller to the end of the agent, for all loops. The sender adds two cases of
//! the attach: a session of another agent that stays open (`Fenced`), and records that have diverged (`Diverged`).

use crate::ports::DiskError;
use api::error::{ApiError, ErrorCode};
use state::terms::refusal::RefusalReason;
use state::terms::refusal::session::SessionRefusal;

/// Why the unit agent ends.
#[derive(Debug)]
pub enum UnitAgentEnd {
    /// The unit is finished: its agent is never started again.
    Finished,
    /// Another agent serves the unit, or the controller acts in its place.
    Fenced(String),
    /// The folder holds an older state than the controller has recorded: it is a copy, or an older state was put back into
    /// it. The text names the newer agent.
    OlderState(String),
    /// The records of the folder and of the controller have diverged.
    Diverged(String),
    /// The agent restarts and attaches again, to compare its disk with the replica. Either the store of the
    /// controller has changed generation, or the controller lacks records that this agent takes for
    /// acknowledged.
    AttachAgain(String),
    /// The disk failed: the agent restarts from what is on disk.
    Disk(DiskError),
}

/// How a loop reacts to an error.
pub(super) enum RequestError {
    /// The request is retried later.
    Retry(ApiError),
    /// The controller refuses the request as invalid. A record is sent again later, because another version of the
    /// controller may accept it.
    Refused(ApiError),
    /// The agent ends.
    End(UnitAgentEnd),
}

impl From<ApiError> for RequestError {
    fn from(error: ApiError) -> RequestError {
        match error.code {
            ErrorCode::Fenced => RequestError::End(fenced(error)),
            ErrorCode::Forked => RequestError::End(UnitAgentEnd::Diverged(error.message)),
            ErrorCode::Removed => RequestError::End(UnitAgentEnd::Finished),
            ErrorCode::Gap => RequestError::End(UnitAgentEnd::AttachAgain(error.message)),
            ErrorCode::Unreachable
            | ErrorCode::Unavailable
            | ErrorCode::Invalid
            | ErrorCode::NotFound
            | ErrorCode::UnknownAction
            | ErrorCode::AlreadyExists
            | ErrorCode::NotAlive
            | ErrorCode::Blocked
            | ErrorCode::Unauthorised
            | ErrorCode::Compacted
            | ErrorCode::Broken => RequestError::Retry(error),
        }
    }
}

/// Why the agent of a refused session ends.
fn fenced(error: ApiError) -> UnitAgentEnd {
    let newer =
        |reason: &RefusalReason| matches!(reason, RefusalReason::Session(SessionRefusal::NewerAgent { .. }));
    match error.reason.as_deref().is_some_and(newer) {
        true => UnitAgentEnd::OlderState(error.message),
        false => UnitAgentEnd::Fenced(error.message),
    }
}

impl From<DiskError> for RequestError {
    fn from(failed: DiskError) -> RequestError {
        RequestError::End(UnitAgentEnd::Disk(failed))
    }
}
