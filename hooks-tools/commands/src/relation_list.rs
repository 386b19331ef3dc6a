//! relation-list: lists the members of a relation (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT, RELATION};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "relation-list",
    arguments: "",
    summary: "List relation units.",
    details: "In a peer relation, the tool lists the other units. A relation-departed hook does not \
        list the unit that it is about (JUJU_REMOTE_UNIT).",
    flags: &[FORMAT, OUTPUT, RELATION, APP],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const APP: Flag =
    Flag { names: &["app"], kind: FlagKind::Switch, help: "List remote application instead of units" };

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let (_, relation) = call.relation()?;
    call.positionals(0)?;
    Ok(ToolOutput::value(if call.parsed.is_on("app") {
        Value::text(&relation.remote_application)
    } else {
        // Sorted as text, as Juju sorts it: db/10 before db/2.
        let mut names: Vec<String> = relation.members.iter().map(ToString::to_string).collect();
        names.sort();
        Value::Names(names)
    }))
}
