//! goal-state: prints the units and relations that the model will contain (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT_WITHOUT_SMART, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;
use state::unit::hook_context::Goal;
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "goal-state",
    arguments: "",
    summary: "Print the status of the charm's peers and related units.",
    details: "",
    flags: &[FORMAT_WITHOUT_SMART, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let goals = &call.context.goal_state;
    let relations =
        goals.relations.iter().map(|(endpoint, parties)| (endpoint.clone(), goals_value(parties)));
    Ok(ToolOutput::value(Value::Record(vec![
        ("units", goals_value(&goals.units)),
        ("relations", Value::Map(relations.collect())),
    ])))
}

fn goals_value(goals: &BTreeMap<String, Goal>) -> Value {
    let members = goals.iter().map(|(name, goal)| {
        let fields = vec![("status", Value::text(goal.status.as_str())), ("since", Value::text(&goal.since))];
        (name.clone(), Value::Record(fields))
    });
    Value::Map(members.collect())
}
