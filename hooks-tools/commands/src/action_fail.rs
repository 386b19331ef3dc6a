//! action-fail: marks the running action as failed; its program continues (spec/hook-tools.md 2.7).

use crate::action_get::running_action;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};

pub const TOOL: Tool = Tool {
    name: "action-fail",
    arguments: "[\"<failure message>\"]",
    summary: "Set action fail status with message.",
    details: "The action ends as failed, even if its program exits with 0.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const WITHOUT_REASON: &str = "action failed without reason given, check action for errors";

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let reason = call.positionals(1)?.first().cloned().unwrap_or_else(|| WITHOUT_REASON.to_owned());
    running_action(call.context)?;
    let mut action = call.context.writes.action.clone();
    action.failed = Some(reason);
    call.context.write_action(action)?;
    Ok(ToolOutput::silent())
}
