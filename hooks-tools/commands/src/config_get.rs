//! config-get: prints the configuration of the application (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "config-get",
    arguments: "[<key>]",
    summary: "Print application configuration.",
    details: "Without a key, the tool prints all options that have a value. With --all, it also prints the others, as null.",
    flags: &[FORMAT, OUTPUT, ALL],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const ALL: Flag = Flag { names: &["all", "a"], kind: FlagKind::Switch, help: "Print all keys" };

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let key = call.positionals(1)?.first().filter(|key| !key.is_empty());
    let all = call.parsed.is_on("all");
    if let (Some(key), true) = (key, all) {
        return usage(format!("cannot use argument --all together with key {}", quote(key)));
    }
    let config = &call.context.config;
    Ok(ToolOutput::value(match key {
        Some(key) => config.get(key).map_or(Value::Nil, Value::from),
        None => {
            let shown = config.iter().filter(|(_, value)| all || !value.is_null());
            Value::Map(shown.map(|(key, value)| (key.clone(), Value::from(value))).collect())
        }
    }))
}
