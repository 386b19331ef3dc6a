//! state-get: prints the state that the controller stores for the charm (spec/hook-tools.md 2.5).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "state-get",
    arguments: "[<key>]",
    summary: "Print server-side-state value.",
    details: "Without a key, or with \"-\", prints the whole state. A key that does not exist is an empty string.",
    flags: &[
        FORMAT,
        OUTPUT,
        Flag {
            names: &["strict"],
            kind: FlagKind::Switch,
            help: "Return an error if the requested key does not exist",
        },
    ],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let key = call.positionals(1)?.first().filter(|key| !key.is_empty() && *key != "-");
    let state = call.context.own_state();
    Ok(ToolOutput::value(match (key, state) {
        (None, None) => Value::NilMap,
        (None, Some(state)) => Value::from(state),
        (Some(key), state) => match state.unwrap_or_default().remove(key) {
            Some(text) => Value::Text(text),
            None if call.parsed.is_on("strict") => return failed(format!("{} not found", quote(key))),
            None => Value::text(""),
        },
    }))
}
