//! relation-model-get: prints the uuid of the model of the application on the other side of a relation, which is always
//! the model of the unit (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, OUTPUT, RELATION};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "relation-model-get",
    arguments: "",
    summary: "Get details about the model hosting a related application.",
    details: "Outside relation hooks, -r is required.",
    flags: &[FORMAT, OUTPUT, RELATION],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let (_, relation) = call.relation()?;
    call.positionals(0)?;
    Ok(ToolOutput::value(Value::Record(vec![("uuid", Value::text(relation.remote_model.to_string()))])))
}
