//! relation-ids: lists the relations of an endpoint (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "relation-ids",
    arguments: "<name>",
    summary: "List all relation IDs for the given endpoint.",
    details: "The default is the endpoint of the hook. A broken relation is not listed.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let context = &*call.context;
    let hook_relation =
        context.trigger.relation_context().and_then(|about| context.relations.get(&about.relation));
    let named = call.positionals(1)?.first().filter(|name| !name.is_empty());
    let Some(endpoint) = named.or(hook_relation.map(|relation| &relation.endpoint)) else {
        return usage("no endpoint name specified");
    };
    let listed = context.relations.iter().filter(|(_, r)| r.endpoint == *endpoint && !r.is_broken());
    let mut ids: Vec<String> = listed.map(|(number, _)| format!("{endpoint}:{number}")).collect();
    // Sorted as text: db:10 before db:2.
    ids.sort();
    Ok(ToolOutput::value(Value::Names(ids)))
}
