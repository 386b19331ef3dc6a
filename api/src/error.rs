//! The one error of the wire: a code for programs, a message and a hint for people, and its one mapping to HTTP.

use serde::{Deserialize, Serialize};
use state::terms::cause::Cause;
use std::fmt;

/// What programs decide on. Text is for people and may change; codes may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The message could not be sent or no answer came: retried by loops. Made by the client end.
    Unreachable,
    /// Busy or conflicting for now; retried by loops.
    Unavailable,
    /// Bad input.
    Invalid,
    NotFound,
    AlreadyExists,
    /// The entity or what it hangs on is Dying or gone.
    NotAlive,
    /// Allowed later: something has to happen first; see the blockers.
    Blocked,
    /// No token, unknown token, or a token that may not do this. Never tells whether the object exists.
    Unauthorised,
    /// A newer agent attached: this one is a copy and stops (design 6).
    Fenced,
    /// A record of this sequence with other content was applied before (design 4).
    Forked,
    /// Records are missing before this one; the message's `expected` says from which on.
    Gap,
    /// A tombstone: the entity was removed, in this history (design 7).
    Removed,
    /// The watch position is of another history or was compacted: take a full view.
    Compacted,
    /// A promise of the controller failed.
    Broken,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// With `Gap`: the sequence the controller needs next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// With `Unreachable`: why nothing answers at the controller's address, in plain words. Never sent: made by the
    /// client end. None where something answers that is not the controller.
    #[serde(skip)]
    pub unreachable: Option<String>,
    /// What has to happen first; of more than [`state::documents::blockers::BLOCKERS_MAX`] there is one more than that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Cause>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError { code, message, hint: None, expected: None, unreachable: None, blockers: Vec::new() }
    }

    /// Nothing answers at the controller's `address`.
    pub fn unreachable(address: impl fmt::Display, why: impl Into<String>) -> ApiError {
        let why = why.into();
        let message = format!("controller {address} is not there: {why}");
        ApiError { unreachable: Some(why), ..ApiError::new(ErrorCode::Unreachable, message) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }

    /// Worth sending again unchanged.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, ErrorCode::Unreachable | ErrorCode::Unavailable)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n      {hint}"))
    }
}

impl std::error::Error for ApiError {}

impl ErrorCode {
    /// The HTTP status of a code.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::Invalid => 400,
            ErrorCode::Unauthorised => 401,
            ErrorCode::NotFound => 404,
            ErrorCode::AlreadyExists
            | ErrorCode::NotAlive
            | ErrorCode::Blocked
            | ErrorCode::Fenced
            | ErrorCode::Forked
            | ErrorCode::Gap => 409,
            ErrorCode::Removed | ErrorCode::Compacted => 410,
            ErrorCode::Broken => 500,
            ErrorCode::Unreachable | ErrorCode::Unavailable => 503,
        }
    }
}
