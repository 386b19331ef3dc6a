//! juju-log: a line in the unit's log, at once (spec/hook-tools.md 2.3).

use crate::flags::{Flag, IGNORED_FORMAT, Kind};
use crate::quote::quote;
use crate::tool::{Answer, Call, Stop, Tool, usage};
use state::unit::hook::{Immediate, Level};

pub const TOOL: Tool = Tool {
    name: "juju-log",
    arguments: "<message>",
    summary: "Write a message to the log.",
    details: "The words are joined by blanks. In a relation hook the line begins with the relation's id.",
    flags: &[
        IGNORED_FORMAT,
        Flag { names: &["debug"], kind: Kind::Switch, help: "log at debug level" },
        Flag { names: &["l", "log-level"], kind: Kind::Text, help: "Send log message at the given level" },
    ],
    run,
};

fn run(call: &mut Call) -> Result<Answer, Stop> {
    if call.parsed.words.is_empty() {
        return usage("no message specified");
    }
    let relation =
        call.context.cause.counterpart().and_then(|about| call.context.relation_id(about.relation));
    let prefix = relation.map_or_else(String::new, |id| format!("{id}: "));
    let line = |level, text: &str| Immediate::Log { level, text: format!("{prefix}{text}") };
    let message = call.parsed.words.join(" ");
    let asked = if call.parsed.on("debug") { "DEBUG" } else { call.parsed.text("l").unwrap_or("INFO") };
    let immediate = match level(asked) {
        Known::Level(level) => vec![line(level, &message)],
        Known::Unspecified => Vec::new(),
        Known::Not => {
            let warning = format!("Specified log level of {} is not valid", quote(asked));
            vec![line(Level::Warning, &warning), line(Level::Info, &message)]
        }
    };
    Ok(Answer { immediate, ..Answer::silent() })
}

enum Known {
    Level(Level),
    /// A level below every other: such a line is never shown.
    Unspecified,
    Not,
}

fn level(name: &str) -> Known {
    Known::Level(match name.to_uppercase().as_str() {
        "TRACE" => Level::Trace,
        "DEBUG" => Level::Debug,
        "INFO" => Level::Info,
        "WARN" | "WARNING" => Level::Warning,
        "ERROR" => Level::Error,
        "CRITICAL" => Level::Critical,
        "UNSPECIFIED" => return Known::Unspecified,
        _ => return Known::Not,
    })
}
