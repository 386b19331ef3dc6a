//! status-set: reports the status of the workload at once (spec/hook-tools.md 2.3).

use crate::flags::{Flag, FlagKind};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use state::terms::status::WorkloadStatus;
use state::unit::hook_context::{HookStatus, ReportContent};
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
    requires_utf8: false,
    is_confidential: false,
    run,
};

/// The statuses that a charm may set, in the order of the usage text.
const STATUSES: [WorkloadStatus; 4] =
    [WorkloadStatus::Maintenance, WorkloadStatus::Blocked, WorkloadStatus::Waiting, WorkloadStatus::Active];

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(word) = call.parsed.positionals.first() else {
        return usage("invalid args, require <status> [message]");
    };
    let Some(status) = STATUSES.into_iter().find(|status| status.as_str() == word) else {
        let expected = STATUSES.map(WorkloadStatus::as_str).join(" ");
        return usage(format!("invalid status {}, expected one of [{expected}]", quote(word)));
    };
    let message = call.positionals(2)?.get(1).cloned().unwrap_or_default();
    let new = HookStatus { status, message: message.clone(), data: BTreeMap::new() };
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
