//! status-get: prints the last status of the workload, including what this hook has set (spec/hook-tools.md 2.3,
//! spec/uniter.md C.1).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use crate::value::Value;
use state::unit::hook_context::HookStatus;
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "status-get",
    arguments: "[--include-data] [--application]",
    summary: "Print status information.",
    details: "",
    flags: &[
        FORMAT,
        OUTPUT,
        Flag { names: &["include-data"], kind: FlagKind::Switch, help: "print all status data" },
        Flag {
            names: &["application"],
            kind: FlagKind::Switch,
            help: "print status for all units of this application if this unit is the leader",
        },
    ],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let data = call.parsed.is_on("include-data");
    let statuses = &call.context.statuses;
    let is_bare = !data && matches!(call.parsed.text("format"), None | Some("smart"));
    if call.parsed.is_on("application") {
        if !call.context.leader {
            return failed("finding application status: this unit is not the leader");
        }
        if is_bare {
            return Ok(ToolOutput::value(Value::text(statuses.application.status.as_str())));
        }
        let units =
            statuses.units.iter().map(|(unit, status)| (unit.to_string(), Value::Map(details(status, data))));
        let units = Value::Map(units.collect());
        let mut application = details(&statuses.application, data);
        application.insert("units".to_owned(), units);
        let all = BTreeMap::from([("application-status".to_owned(), Value::Map(application))]);
        return Ok(ToolOutput::value(Value::Map(all)));
    }
    Ok(ToolOutput::value(match is_bare {
        true => Value::text(statuses.unit.status.as_str()),
        false => Value::Map(details(&statuses.unit, data)),
    }))
}

fn details(status: &HookStatus, include_data: bool) -> BTreeMap<String, Value> {
    let mut details = BTreeMap::from([("status".to_owned(), Value::text(status.status.as_str()))]);
    if include_data {
        details.insert("message".to_owned(), Value::text(&status.message));
        let data = status.data.iter().map(|(key, value)| (key.clone(), Value::from(value)));
        details.insert("status-data".to_owned(), Value::Map(data.collect()));
    }
    details
}
