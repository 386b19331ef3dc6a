//! opened-ports: what is open once this hook has succeeded (spec/hook-tools.md 2.4).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT};
use crate::tool::{Answer, Call, Stop, Tool};
use crate::value::Value;
use state::unit::hook::ALL_ENDPOINTS;
use state::unit::port_range::PortRange;
use std::collections::{BTreeMap, BTreeSet};

pub const TOOL: Tool = Tool {
    name: "opened-ports",
    arguments: "",
    summary: "List all ports or port ranges opened by the unit.",
    details: "What this hook has opened and closed so far is taken into account.",
    flags: &[
        FORMAT,
        OUTPUT,
        Flag {
            names: &["endpoints"],
            kind: Kind::Switch,
            help: "display the list of target application endpoints for each port range",
        },
    ],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    call.words(0)?;
    let mut ranges: BTreeMap<PortRange, BTreeSet<String>> = BTreeMap::new();
    for (endpoint, open) in call.context.own_ports() {
        for range in open.iter().filter_map(|text| text.parse().ok()) {
            ranges.entry(range).or_default().insert(endpoint.clone());
        }
    }
    let endpoints = call.parsed.on("endpoints");
    let lines = ranges.into_iter().map(|(range, at)| match endpoints {
        false => range.to_string(),
        true if at.contains(ALL_ENDPOINTS) => format!("{range} ({ALL_ENDPOINTS})"),
        true => format!("{range} ({})", at.into_iter().collect::<Vec<_>>().join(", ")),
    });
    Ok(Answer::value(Value::Names(lines.collect())))
}
