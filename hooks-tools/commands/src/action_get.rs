//! action-get: prints the parameters of the running action (spec/hook-tools.md 2.7).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use crate::value::Value;
use state::unit::hook_context::{HookContext, HookTrigger, RunningAction};

pub const TOOL: Tool = Tool {
    name: "action-get",
    arguments: "[<key>[.<key>.<key>...]]",
    summary: "Get action parameters.",
    details: "Without a key, the tool prints all parameters. Dots in a key select from nested maps.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let path = call.positionals(1)?.first();
    let params = &running_action(call.context)?.params;
    let Some(path) = path else {
        let members = params.iter().map(|(key, value)| (key.clone(), Value::from(value)));
        return Ok(ToolOutput::value(Value::Map(members.collect())));
    };
    let mut keys = path.split('.');
    let first = keys.next().and_then(|key| params.get(key));
    let found = keys.fold(first, |value, key| value.and_then(|value| value.as_object()?.get(key)));
    Ok(ToolOutput::value(found.map_or(Value::Nil, Value::from)))
}

/// Returns the running action.
///
/// # Errors
/// A failure in everything but an action.
pub fn running_action(context: &HookContext) -> Result<&RunningAction, ToolError> {
    match &context.trigger {
        HookTrigger::Action(action) => Ok(action),
        HookTrigger::Hook(_)
        | HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Secret { .. }
        | HookTrigger::Workload { .. }
        | HookTrigger::Commands(_) => failed("not running an action"),
    }
}
