//! opened-ports: lists the ports that are open if this hook succeeds (spec/hook-tools.md 2.4).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;
use state::terms::port_range::PortRange;
use state::unit::hook_context::ALL_ENDPOINTS;
use std::collections::{BTreeMap, BTreeSet};

pub const TOOL: Tool = Tool {
    name: "opened-ports",
    arguments: "",
    summary: "List all ports or port ranges opened by the unit.",
    details: "The list includes what this hook has opened and closed so far.",
    flags: &[
        FORMAT,
        OUTPUT,
        Flag {
            names: &["endpoints"],
            kind: FlagKind::Switch,
            help: "display the list of target application endpoints for each port range",
        },
    ],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let mut ranges: BTreeMap<PortRange, BTreeSet<String>> = BTreeMap::new();
    for (endpoint, open) in call.context.own_ports() {
        for range in open {
            ranges.entry(range).or_default().insert(endpoint.clone());
        }
    }
    let show_endpoints = call.parsed.is_on("endpoints");
    let lines = ranges.into_iter().map(|(range, at)| match show_endpoints {
        false => range.to_string(),
        true if at.contains(ALL_ENDPOINTS) => format!("{range} ({ALL_ENDPOINTS})"),
        true => format!("{range} ({})", at.into_iter().collect::<Vec<_>>().join(", ")),
    });
    Ok(ToolOutput::value(Value::Names(lines.collect())))
}
