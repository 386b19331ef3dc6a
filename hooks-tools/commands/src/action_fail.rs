//! action-fail: the running action has failed, though its program goes on (spec/hook-tools.md 2.7).

use crate::action_get::running;
use crate::tool::{Answer, Call, Stop, Tool};

pub const TOOL: Tool = Tool {
    name: "action-fail",
    arguments: "[\"<failure message>\"]",
    summary: "Set action fail status with message.",
    details: "The action ends as failed, even if its program exits with 0.",
    flags: &[],
    run,
};

const WITHOUT_REASON: &str = "action failed without reason given, check action for errors";

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let reason = call.words(1)?.first().cloned().unwrap_or_else(|| WITHOUT_REASON.to_owned());
    running(call.context)?;
    let mut action = call.context.writes.action.clone();
    action.failed = Some(reason);
    call.context.write_action(action)?;
    Ok(Answer::silent())
}
