//! juju-log: writes a line to the log of the unit at once (spec/hook-tools.md 2.3).

use crate::flags::{Flag, FlagKind, IGNORED_FORMAT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use state::unit::hook_context::{Level, ReportContent};

pub const TOOL: Tool = Tool {
    name: "juju-log",
    arguments: "<message>",
    summary: "Write a message to the log.",
    details: "The arguments are joined by spaces. In a relation hook the line begins with the relation's id.",
    flags: &[
        IGNORED_FORMAT,
        Flag { names: &["debug"], kind: FlagKind::Switch, help: "log at debug level" },
        Flag {
            names: &["l", "log-level"],
            kind: FlagKind::Text,
            help: "Send log message at the given level",
        },
    ],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    if call.parsed.positionals.is_empty() {
        return usage("no message specified");
    }
    let relation =
        call.context.trigger.relation_context().and_then(|about| call.context.relation_id(about.relation));
    let prefix = relation.map_or_else(String::new, |id| format!("{id}: "));
    let line = |level, text: &str| ReportContent::Log { level, text: format!("{prefix}{text}") };
    let message = call.parsed.positionals.join(" ");
    let level_name =
        if call.parsed.is_on("debug") { "DEBUG" } else { call.parsed.text("l").unwrap_or("INFO") };
    let reports = match level(level_name) {
        ParsedLevel::Level(level) => vec![line(level, &message)],
        ParsedLevel::Unspecified => Vec::new(),
        ParsedLevel::Invalid => {
            let warning = format!("Specified log level of {} is not valid", quote(level_name));
            vec![line(Level::Warning, &warning), line(Level::Info, &message)]
        }
    };
    Ok(ToolOutput { reports, ..ToolOutput::silent() })
}

/// The value of `--log-level`.
enum ParsedLevel {
    /// One of the levels of the log.
    Level(Level),
    /// The level below all others: the line is never shown, so it is not sent.
    Unspecified,
    /// Any other text.
    Invalid,
}

fn level(name: &str) -> ParsedLevel {
    match name.to_uppercase().as_str() {
        "WARN" => ParsedLevel::Level(Level::Warning),
        "UNSPECIFIED" => ParsedLevel::Unspecified,
        name => name.parse().map_or(ParsedLevel::Invalid, ParsedLevel::Level),
    }
}
