//! storage-list: lists the storage of the unit (spec/hook-tools.md 2.5).

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "storage-list",
    arguments: "[<storage-name>]",
    summary: "List storage attached to the unit.",
    details: "With a name, lists the instances of that name only.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let name = call.positionals(1)?.first().filter(|name| !name.is_empty());
    let ids = call.context.storage.keys();
    let named = ids.filter(|id| name.is_none_or(|name| id.name == *name));
    Ok(ToolOutput::value(Value::Names(named.map(ToString::to_string).collect())))
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, storage_context};

    #[test]
    fn a_name_selects_its_instances() {
        let mut context = storage_context();
        assert_eq!(call(&mut context, "storage-list", &[]).stdout, b"cache/1\ndata/0\n");
        assert_eq!(call(&mut context, "storage-list", &["data"]).stdout, b"data/0\n");
        assert_eq!(call(&mut context, "storage-list", &["--format=json", "nope"]).stdout, b"[]\n");
        assert_eq!(call(&mut context, "storage-list", &["a", "b"]).code, 2);
    }
}
