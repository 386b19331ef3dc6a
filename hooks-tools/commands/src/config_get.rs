//! config-get: the application's configuration (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, Flag, Kind, OUTPUT};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "config-get",
    arguments: "[<key>]",
    summary: "Print application configuration.",
    details: "Without a key all options that have a value; with --all the others too, as null.",
    flags: &[FORMAT, OUTPUT, ALL],
    run,
};

const ALL: Flag = Flag { names: &["all", "a"], kind: Kind::Switch, help: "Print all keys" };

fn run(call: &mut Call) -> Result<Answer, Stop> {
    let key = call.words(1)?.first().filter(|key| !key.is_empty());
    let all = call.parsed.on("all");
    if let (Some(key), true) = (key, all) {
        return usage(format!("cannot use argument --all together with key {}", quote(key)));
    }
    let config = &call.context.config;
    Ok(Answer::value(match key {
        Some(key) => config.get(key).map_or(Value::Nil, Value::from),
        None => {
            let shown = config.iter().filter(|(_, value)| all || !value.is_null());
            Value::Map(shown.map(|(key, value)| (key.clone(), Value::from(value))).collect())
        }
    }))
}
