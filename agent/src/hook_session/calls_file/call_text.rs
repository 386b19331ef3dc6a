//! One tool call of `calls.yaml` as a person reads it: the command line, and the beginning of its answer.
//!
//! Contents of secrets that the hook had read or written before the call are masked; of a call that may concern one,
//! only the tool is shown. Called by `follow_runs`.

use super::{AnsweredCall, CallsLine, StoredBytes};
use host::escape::one_line;
use host::shell::quote;

/// The most characters of an argument or an answer that are shown: one fills a line of a terminal with 80 columns.
const EXCERPT_CHARS: usize = 80;

/// A tool call, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// The tool and its arguments, as they would be typed, each shortened to `EXCERPT_CHARS`; `...` stands for
    /// arguments that are not shown.
    pub command: String,
    /// The beginning of the first line of stdout, or of stderr if the call failed; the number of bytes if only a digest
    /// is stored; empty for a call that may concern a secret.
    pub answer: String,
    /// The exit code.
    pub code: u8,
}

impl ShownCall {
    /// The call of a line. None if the line is not a call.
    pub fn of(line: &CallsLine) -> Option<ShownCall> {
        match line {
            CallsLine::Call(call) => Some(ShownCall::of_call(&call.clone().shown())),
            CallsLine::Confidential(call) => {
                let command = format!("{} ...", excerpt(call.confidential_tool.as_bytes()));
                Some(ShownCall { command, answer: String::new(), code: call.code })
            }
            CallsLine::Bag(_) => None,
        }
    }

    fn of_call(call: &AnsweredCall) -> ShownCall {
        let mut words = vec![excerpt(call.tool.as_bytes())];
        words.extend(call.args.iter().map(|arg| quote(&excerpt(arg.as_slice()))));
        if call.request_digest.is_some() {
            words.push("...".to_owned());
        }
        let answer = if call.code == 0 { &call.stdout } else { &call.stderr };
        let answer = match answer {
            StoredBytes::Digest { length, .. } => format!("{length} bytes"),
            StoredBytes::Text(_) | StoredBytes::Raw { .. } => excerpt(answer.as_slice()),
        };
        ShownCall { command: words.join(" "), answer, code: call.code }
    }
}

/// The beginning of the first line.
fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut excerpt: String = first.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < first.len() || lines.next().is_some() {
        excerpt += "...";
    }
    one_line(&excerpt)
}
