//! status-set: reports the status of the workload at once (spec/hook-tools.md 2.3).

use crate::flags::{Flag, FlagKind};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use state::unit::hook::{ReportContent, Status};
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "status-set",
    arguments: "<maintenance | blocked | waiting | active> [message]",
    summary: "Set status information.",
    details: "Takes effect at once, even if the hook fails later.",
    flags: &[Flag {
        names: &["application"],
        kind: FlagKind::Switch,
        help: "set this status for the application to which the unit belongs, if the unit is the leader",
    }],
    run,
};

const STATUSES: [&str; 4] = ["maintenance", "blocked", "waiting", "active"];

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(status) = call.parsed.positionals.first().cloned() else {
        return usage("invalid args, require <status> [message]");
    };
    if !STATUSES.contains(&status.as_str()) {
        let expected = STATUSES.join(" ");
        return usage(format!("invalid status {}, expected one of [{expected}]", quote(&status)));
    }
    let message = call.positionals(2)?.get(1).cloned().unwrap_or_default();
    let new = Status { status: status.clone(), message: message.clone(), data: BTreeMap::new() };
    let statuses = &mut call.context.statuses;
    if !call.parsed.is_on("application") {
        statuses.units.insert(call.context.unit.clone(), new.clone());
        statuses.unit = new;
        return Ok(ToolOutput::report(ReportContent::UnitStatus { status, message }));
    }
    if !call.context.leader {
        return failed("this unit is not the leader");
    }
    statuses.application = new;
    Ok(ToolOutput::report(ReportContent::ApplicationStatus { status, message }))
}
