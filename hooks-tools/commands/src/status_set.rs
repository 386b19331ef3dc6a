//! status-set: the charm's words about its workload, at once (spec/hook-tools.md 2.3).

use crate::flags::{Flag, Kind};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, failed, usage};
use state::unit::hook::{Immediate, Status};
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "status-set",
    arguments: "<maintenance | blocked | waiting | active> [message]",
    summary: "Set status information.",
    details: "Seen at once, even if the hook fails later.",
    flags: &[Flag {
        names: &["application"],
        kind: Kind::Switch,
        help: "set this status for the application to which the unit belongs, if the unit is the leader",
    }],
    run,
};

const STATUSES: [&str; 4] = ["maintenance", "blocked", "waiting", "active"];

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let Some(status) = call.parsed.words.first().cloned() else {
        return usage("invalid args, require <status> [message]");
    };
    if !STATUSES.contains(&status.as_str()) {
        let expected = STATUSES.join(" ");
        return usage(format!("invalid status {}, expected one of [{expected}]", quote(&status)));
    }
    let message = call.words(2)?.get(1).cloned().unwrap_or_default();
    let shown = Status { status: status.clone(), message: message.clone(), data: BTreeMap::new() };
    let statuses = &mut call.context.statuses;
    if !call.parsed.on("application") {
        statuses.units.insert(call.context.unit.clone(), shown.clone());
        statuses.unit = shown;
        return Ok(Answer::immediate(Immediate::UnitStatus { status, message }));
    }
    if !call.context.leader {
        return failed("this unit is not the leader");
    }
    statuses.application = shown;
    Ok(Answer::immediate(Immediate::ApplicationStatus { status, message }))
}
