//! relation-list: who is in a relation (spec/hook-tools.md 2.1).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT, RELATION};
use crate::tool::{Answer, Call, Stop, Tool};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "relation-list",
    arguments: "",
    summary: "List relation units.",
    details: "In a peer relation the other units. The unit that departs is no longer listed in its departed hook.",
    flags: &[FORMAT, OUTPUT, RELATION, APP],
    run,
};

const APP: Flag =
    Flag { names: &["app"], kind: Kind::Switch, help: "List remote application instead of units" };

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let (_, relation) = call.relation()?;
    call.words(0)?;
    Ok(Answer::value(if call.parsed.on("app") {
        Value::text(&relation.remote_application)
    } else {
        // Sorted as text, as Juju sorts it: db/10 before db/2.
        let mut names: Vec<String> = relation.members.iter().map(ToString::to_string).collect();
        names.sort();
        Value::Names(names)
    }))
}
