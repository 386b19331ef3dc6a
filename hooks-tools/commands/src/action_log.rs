//! action-log: reports a progress message of the running action at once (spec/hook-tools.md 2.7).

use crate::action_get::running_action;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use state::unit::hook_context::ReportContent;

pub const TOOL: Tool = Tool {
    name: "action-log",
    arguments: "<message>",
    summary: "Record a progress message for the current action.",
    details: "The arguments are joined by spaces.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    if call.parsed.positionals.is_empty() {
        return usage("no message specified");
    }
    running_action(call.context)?;
    Ok(ToolOutput::report(ReportContent::ActionLog(call.parsed.positionals.join(" "))))
}
