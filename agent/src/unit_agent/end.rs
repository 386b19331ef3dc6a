//! How the unit agent ends, and how its loops react to a failed request.
//!
//! Which error of the controller ends the agent is decided here alone, for all loops.

use crate::ports::DiskError;
use api::error::{ApiError, ErrorCode};

/// Why the unit agent ends.
#[derive(Debug)]
pub enum UnitAgentEnd {
    /// The unit is finished: its agent is never started again.
    Finished,
    /// A newer agent serves the unit, so this folder is a copy. The text describes the newer agent.
    Copy(String),
    /// The records of the folder and of the controller have diverged.
    Forked(String),
    /// The store of the controller has changed generation: the agent restarts to compare its disk with the
    /// replica.
    Reattach(String),
    /// The disk failed: the agent restarts from what is on disk.
    Disk(DiskError),
}

/// How a loop reacts to an error.
pub(super) enum SendError {
    /// The request is retried later.
    Link(ApiError),
    /// The same request would be refused again.
    Refused(ApiError),
    /// The agent ends.
    End(UnitAgentEnd),
}

impl From<ApiError> for SendError {
    fn from(error: ApiError) -> SendError {
        match error.code {
            ErrorCode::Fenced => SendError::End(UnitAgentEnd::Copy(error.message)),
            ErrorCode::Forked => SendError::End(UnitAgentEnd::Forked(error.message)),
            ErrorCode::Removed => SendError::End(UnitAgentEnd::Finished),
            ErrorCode::Gap => SendError::End(UnitAgentEnd::Reattach(error.message)),
            ErrorCode::Unreachable
            | ErrorCode::Unavailable
            | ErrorCode::Invalid
            | ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::NotAlive
            | ErrorCode::Blocked
            | ErrorCode::Unauthorised
            | ErrorCode::Compacted
            | ErrorCode::Broken => SendError::Link(error),
        }
    }
}

impl From<DiskError> for SendError {
    fn from(failed: DiskError) -> SendError {
        SendError::End(UnitAgentEnd::Disk(failed))
    }
}
