//! relation-ids: the relations of an endpoint (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Answer, Call, Stop, Tool, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "relation-ids",
    arguments: "<name>",
    summary: "List all relation IDs for the given endpoint.",
    details: "The default is the endpoint of the hook. A broken relation is not listed.",
    flags: &[FORMAT, OUTPUT],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let context = &*call.context;
    let own = context.cause.counterpart().and_then(|about| context.relations.get(&about.relation));
    let named = call.words(1)?.first().filter(|name| !name.is_empty());
    let Some(endpoint) = named.or(own.map(|relation| &relation.endpoint)) else {
        return usage("no endpoint name specified");
    };
    let listed = context.relations.iter().filter(|(_, r)| r.endpoint == *endpoint && !r.is_broken());
    let mut ids: Vec<String> = listed.map(|(number, _)| format!("{endpoint}:{number}")).collect();
    // Sorted as text: db:10 before db:2.
    ids.sort();
    Ok(Answer::value(Value::Names(ids)))
}
