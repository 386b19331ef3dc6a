//! action-log: a line about the progress of the running action, at once (spec/hook-tools.md 2.7).

use crate::action_get::running;
use crate::tool::{Answer, Call, Stop, Tool, usage};
use state::unit::hook::Immediate;

pub const TOOL: Tool = Tool {
    name: "action-log",
    arguments: "<message>",
    summary: "Record a progress message for the current action.",
    details: "The words are joined by blanks.",
    flags: &[],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    if call.parsed.words.is_empty() {
        return usage("no message specified");
    }
    running(call.context)?;
    Ok(Answer::immediate(Immediate::ActionLog(call.parsed.words.join(" "))))
}
