//! Why a command ends without having done what it was told: what is said, and with which exit code.

use crate::render::cause;
use crate::terminal;
use crate::times::now_ms;
use api::error::{ApiError, ErrorCode};

/// Exit code of a command that could not be understood.
pub const USAGE: u8 = 2;

/// An error for the person: `ERROR message`, the hint indented below it (style 1.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
    /// What the controller answered, where it was its refusal.
    pub refusal: Option<ErrorCode>,
    /// Why nothing answers at the controller's address, where that is the failure.
    pub unreachable: Option<String>,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, code: 1, refusal: None, unreachable: None }
    }

    /// The command line itself is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: USAGE, ..Failure::new(message) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// `ERROR message` with further lines and the hint indented to the message's column. What charms wrote may be
    /// in it, so it is made safe to print.
    pub fn text(&self) -> String {
        const PREFIX: &str = "ERROR ";
        let indent = " ".repeat(PREFIX.len());
        let lines = self.message.trim_end().lines().chain(self.hint.iter().flat_map(|hint| hint.lines()));
        let lines: Vec<String> = lines.map(terminal::safe_line).collect();
        format!("{PREFIX}{}\n", lines.join(&format!("\n{indent}")))
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        let (blockers, common) = cause::of_refusal(&error.blockers, now_ms());
        let message = std::iter::once(error.message).chain(blockers).collect::<Vec<_>>().join("\n");
        Failure {
            message,
            hint: error.hint.or(common),
            code: 1,
            refusal: Some(error.code),
            unreachable: error.unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::command_error::*;

    #[test]
    fn the_hint_stands_under_the_message() {
        let failure = Failure::new("cannot remove machine 3: unit web/0 is assigned to it");
        assert_eq!(
            failure.hint("remove the unit first, or use --force").text(),
            "ERROR cannot remove machine 3: unit web/0 is assigned to it\n      \
             remove the unit first, or use --force\n"
        );
    }

    #[test]
    fn a_failure_cannot_move_the_cursor() {
        assert_eq!(Failure::new("bad \u{1b}[2J name").text(), "ERROR bad \\u{1b}[2J name\n");
    }
}
