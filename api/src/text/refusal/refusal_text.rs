//! The text of a refusal: its message, and its hint if there is one.

/// A refusal in English.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalText {
    /// What is not possible, and why.
    pub message: String,
    /// A command or a change that helps.
    pub hint: Option<String>,
}

/// A text without a hint.
pub(super) fn plain(message: impl Into<String>) -> RefusalText {
    RefusalText { message: message.into(), hint: None }
}

/// A text with a hint.
pub(super) fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> RefusalText {
    RefusalText { message: message.into(), hint: Some(hint.into()) }
}
