//! state-get: the charm's own state, kept for it by the controller (spec/hook-tools.md 2.5).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, failed};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "state-get",
    arguments: "[<key>]",
    summary: "Print server-side-state value.",
    details: "Without a key, or with \"-\", the whole state. A key that is not there is an empty string.",
    flags: &[
        FORMAT,
        OUTPUT,
        Flag {
            names: &["strict"],
            kind: Kind::Switch,
            help: "Return an error if the requested key does not exist",
        },
    ],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let key = call.words(1)?.first().filter(|key| !key.is_empty() && *key != "-");
    let state = call.context.own_state();
    Ok(Answer::value(match (key, state) {
        (None, None) => Value::NoMap,
        (None, Some(state)) => Value::from(state),
        (Some(key), state) => match state.unwrap_or_default().remove(key) {
            Some(text) => Value::Text(text),
            None if call.parsed.on("strict") => return failed(format!("{} not found", quote(key))),
            None => Value::text(""),
        },
    }))
}
