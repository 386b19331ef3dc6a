//! is-leader: a promise of leadership (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Answer, Call, Stop, Tool};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "is-leader",
    arguments: "",
    summary: "Print application leadership status.",
    details: "True means that this unit stays leader for 30 seconds at least.",
    flags: &[FORMAT, OUTPUT],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    call.words(0)?;
    Ok(Answer::value(Value::Bool(call.context.leader)))
}
