//! The error of a command: message, hint and exit code.
//!
//! Every command returns `Result<(), CommandError>`; `main` prints the error on stderr. An error of the controller is
//! converted here, with its blockers as lines of the message.

use crate::command_flags::CommandFlags;
use crate::terminal_escape;
use crate::times::now_ms;
use api::error::{ApiError, ErrorCode};
use api::text::error::refusal_lines;
use host::process::Process;
use state::documents::refusal::Refusal;
use state::terms::refusal::EntityKind;
use std::fmt::Display;

/// Exit code of a command line that cannot be parsed.
const USAGE: u8 = 2;

/// An error for the operator: printed as `ERROR message` with the hint indented below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// What failed and why; may have several lines.
    pub message: String,
    /// A command to run or a change to make.
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
    /// The controller's error code, if the controller rejected the request.
    pub api_code: Option<ErrorCode>,
    /// Why the controller cannot be reached, if that is the error.
    pub unreachable: Option<String>,
}

impl CommandError {
    /// An error with exit code 1 and no hint.
    pub fn new(message: impl Into<String>) -> CommandError {
        CommandError { message: message.into(), hint: None, code: 1, api_code: None, unreachable: None }
    }

    /// An error in the command line, with exit code 2.
    pub fn usage(message: impl Into<String>) -> CommandError {
        CommandError { code: USAGE, ..CommandError::new(message) }
    }

    /// The error for an entity that does not exist, worded as by the controller.
    pub fn not_found(kind: EntityKind, name: impl Display) -> CommandError {
        ApiError::from(Refusal::not_found(kind, name)).into()
    }

    /// The error for a process that was killed and still runs.
    pub fn not_stopped(process: Process) -> CommandError {
        CommandError::new(format!("cannot stop process {}: it does not exit", process.pid))
    }

    /// The same error with this hint.
    pub fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with the flags of this command line in the commands that it names.
    pub fn complete(self, flags: &CommandFlags) -> CommandError {
        let hint = self.hint.map(|hint| flags.complete(&hint));
        CommandError { message: flags.complete(&self.message), hint, ..self }
    }

    /// The text for stderr: `ERROR message`, with further lines and the hint indented to the column of the message.
    /// The message may contain text of charms, so control characters are escaped.
    pub fn text(&self) -> String {
        const PREFIX: &str = "ERROR ";
        let indent = " ".repeat(PREFIX.len());
        let lines = self.message.trim_end().lines().chain(self.hint.iter().flat_map(|hint| hint.lines()));
        let lines: Vec<String> = lines.map(terminal_escape::safe_line).collect();
        format!("{PREFIX}{}\n", lines.join(&format!("\n{indent}")))
    }
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> CommandError {
        let (blockers, common) = refusal_lines(&error.blockers, now_ms());
        let message = std::iter::once(error.message).chain(blockers).collect::<Vec<_>>().join("\n");
        CommandError {
            message,
            hint: error.hint.or(common),
            code: 1,
            api_code: Some(error.code),
            unreachable: error.unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::command_error::*;

    #[test]
    fn the_hint_is_printed_below_the_message() {
        let (message, hint) = ("cannot remove machine 3: unit web/0 is assigned to it", "use --force");
        let failure = CommandError::new(message).hint(hint);
        assert_eq!(failure.text(), format!("ERROR {message}\n      {hint}\n"));
    }

    #[test]
    fn an_error_message_cannot_move_the_cursor() {
        assert_eq!(CommandError::new("bad\u{1b}[2J").text(), "ERROR bad\\u{1b}[2J\n");
    }
}
