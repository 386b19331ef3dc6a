//! The error of every request: its kind and, of a refusal, the reason for programs, a message and a hint for people, and its
//! HTTP status.
//!
//! A refusal of the core becomes an error here: its code, message and hint follow from its reason.

use crate::text::refusal::{RefusalText, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::documents::refusal::{Code, Refusal};
use state::terms::cause::Cause;
use state::terms::refusal::RefusalReason;
use std::fmt;

/// The kind of an error, on which programs decide. Messages may change; codes may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The request could not be sent, or no response arrived. Loops retry it. Created by the client.
    Unreachable,
    /// The controller cannot do it now: it is busy, the request conflicted with others, its store, a file or a key cannot be
    /// used, a document is damaged. Loops retry it. Also created by the client for a response of another server.
    Unavailable,
    /// The input is invalid.
    Invalid,
    /// The entity does not exist.
    NotFound,
    /// The charm of the unit has no action of this name.
    UnknownAction,
    /// The name is taken.
    AlreadyExists,
    /// The entity, or one that it depends on, is Dying, Dead or removed.
    NotAlive,
    /// The request is not allowed yet: see the blockers for what has to happen first.
    Blocked,
    /// The request has no token, an unknown token, or a token that does not allow it. The error does not reveal
    /// whether the entity exists.
    Unauthorised,
    /// A newer agent of the unit has attached, or the unit is being removed by force: the caller must stop (design 6).
    Fenced,
    /// A record with this sequence number and other content was applied before (design 4).
    Forked,
    /// The records before this one are missing, or the store did not grant the session: the caller must attach again.
    /// [`ApiError::reason`] contains the sequence number that the controller needs next.
    Gap,
    /// The entity was removed: there is a tombstone in this store generation (design 7).
    Removed,
    /// The watch position is of another store generation or too old: the caller must request a full view.
    Compacted,
    /// An answer contradicts the protocol: the controller has failed internally, or the client or an agent cannot use what it
    /// has received.
    Broken,
}

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// The kind, for programs.
    pub code: ErrorCode,
    /// What is not possible, and why.
    pub message: String,
    /// A command or a change that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Why the request was refused; none if the request failed for another reason than a rule of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<RefusalReason>>,
    /// With `Unreachable`: why there is no response from the controller's address. None if another server
    /// responds there. Never sent: the client creates it.
    #[serde(skip)]
    pub unreachable: Option<String>,
    /// What has to happen first: at most [`state::documents::blockers::BLOCKERS_MAX`] + 1 causes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Cause>,
}

impl ApiError {
    /// An error without a hint and without blockers.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        let message = message.into();
        ApiError { code, message, hint: None, reason: None, unreachable: None, blockers: Vec::new() }
    }

    /// There is no response from the controller at `address`.
    pub fn unreachable(address: impl fmt::Display, why: impl Into<String>) -> ApiError {
        let why = why.into();
        let message = format!("cannot reach controller {address}: {why}");
        ApiError { unreachable: Some(why), ..ApiError::new(ErrorCode::Unreachable, message) }
    }

    /// This error with a command or a change that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }

    /// Whether sending the same request again can succeed.
    pub fn is_transient(&self) -> bool {
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

impl From<RefusalReason> for ApiError {
    fn from(reason: RefusalReason) -> ApiError {
        ApiError::from(Refusal::new(reason))
    }
}

impl From<Refusal> for ApiError {
    fn from(Refusal { reason, blockers, .. }: Refusal) -> ApiError {
        let RefusalText { message, hint } = text(&reason);
        let code = ErrorCode::from(reason.code());
        ApiError { hint, reason: Some(reason), blockers, ..ApiError::new(code, message) }
    }
}

impl From<Code> for ErrorCode {
    fn from(code: Code) -> ErrorCode {
        match code {
            Code::NotFound => ErrorCode::NotFound,
            Code::UnknownAction => ErrorCode::UnknownAction,
            Code::AlreadyExists => ErrorCode::AlreadyExists,
            Code::NotAlive => ErrorCode::NotAlive,
            Code::Invalid | Code::Ambiguous => ErrorCode::Invalid,
            Code::Busy => ErrorCode::Blocked,
            Code::Forbidden => ErrorCode::Unauthorised,
            Code::Fenced => ErrorCode::Fenced,
            Code::Forked => ErrorCode::Forked,
            Code::Gap { .. } => ErrorCode::Gap,
            Code::Removed => ErrorCode::Removed,
        }
    }
}

impl ErrorCode {
    /// The HTTP status of this code.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::Invalid => 400,
            ErrorCode::Unauthorised => 401,
            ErrorCode::NotFound | ErrorCode::UnknownAction => 404,
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
