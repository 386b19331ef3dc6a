//! goal-state: what the model should come to (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT_WITHOUT_SMART, OUTPUT};
use crate::tool::{Answer, Call, Stop, Tool};
use crate::value::Value;
use state::unit::hook::Goal;
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "goal-state",
    arguments: "",
    summary: "Print the status of the charm's peers and related units.",
    details: "",
    flags: &[FORMAT_WITHOUT_SMART, OUTPUT],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    call.words(0)?;
    let goals = &call.context.goal_state;
    let relations = goals.relations.iter().map(|(endpoint, parties)| (endpoint.clone(), written(parties)));
    Ok(Answer::value(Value::Record(vec![
        ("units", written(&goals.units)),
        ("relations", Value::Map(relations.collect())),
    ])))
}

fn written(goals: &BTreeMap<String, Goal>) -> Value {
    let written = goals.iter().map(|(name, goal)| {
        let fields = vec![("status", Value::text(&goal.status)), ("since", Value::text(&goal.since))];
        (name.clone(), Value::Record(fields))
    });
    Value::Map(written.collect())
}
