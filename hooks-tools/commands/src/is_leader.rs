//! is-leader: prints whether this unit is the leader, and stays so for 30 seconds (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "is-leader",
    arguments: "",
    summary: "Print application leadership status.",
    details: "True means that this unit stays leader for 30 seconds at least.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    Ok(ToolOutput::value(Value::Bool(call.context.leader)))
}
