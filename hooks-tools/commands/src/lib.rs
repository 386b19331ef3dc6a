//! The tools a hook calls, each a pure function of its arguments and the hook's context
//! (spec/hook-tools.md). No I/O here: a tool that wants its stdin or a file says so and is asked again.
//!
//! Reading order: this file (name to tool, exit codes), `tool` (what a tool is), `flags`, then one file a tool;
//! `format`, `yaml`, `json` for what is printed.

mod action_fail;
mod action_get;
mod action_log;
mod action_set;
mod application_version_set;
mod config_get;
mod flags;
mod format;
mod goal_state;
mod help;
mod is_leader;
mod json;
mod juju_log;
mod juju_reboot;
mod key_value;
mod natural_order;
mod network_get;
mod number;
mod opened_ports;
mod ports;
mod quote;
mod relation_get;
mod relation_ids;
mod relation_list;
mod relation_set;
#[cfg(test)]
mod sample;
mod settings_file;
mod state_get;
mod state_set;
mod status_get;
mod status_set;
mod tool;
mod unit_get;
mod unsupported;
mod value;
mod yaml;
mod yaml_plain;

pub use format::Format;
pub use tool::{Inputs, Need, Outcome, Reply};
pub use value::Value;

use state::unit::hook::HookContext;
use tool::{Answer, Call, Stop, Tool};

/// Every tool that does something.
const TOOLS: &[&Tool] = &[
    &action_fail::TOOL,
    &action_get::TOOL,
    &action_log::TOOL,
    &action_set::TOOL,
    &application_version_set::TOOL,
    &ports::CLOSE,
    &config_get::TOOL,
    &goal_state::TOOL,
    &is_leader::TOOL,
    &juju_log::TOOL,
    &juju_reboot::TOOL,
    &network_get::TOOL,
    &ports::OPEN,
    &opened_ports::TOOL,
    &relation_get::TOOL,
    &relation_ids::TOOL,
    &relation_list::TOOL,
    &relation_set::TOOL,
    &state_set::DELETE,
    &state_get::TOOL,
    &state_set::TOOL,
    &status_get::TOOL,
    &status_set::TOOL,
    &unit_get::TOOL,
];

/// Tools whose arguments are stored: they refuse what is not UTF-8 (design 17). The others only show theirs.
const STORING: &[&str] = &["action-set", "relation-set", "state-delete", "state-set"];

/// The names a unit's tools folder holds, sorted. A tool missing on PATH crashes charms, so tools that are not
/// supported are there too, and say so.
pub const NAMES: &[&str] = &[
    "action-fail",
    "action-get",
    "action-log",
    "action-set",
    "add-metric",
    "application-version-set",
    "close-port",
    "config-get",
    "credential-get",
    "goal-state",
    "is-leader",
    "juju-log",
    "juju-reboot",
    "k8s-raw-get",
    "k8s-raw-set",
    "k8s-spec-get",
    "k8s-spec-set",
    "leader-get",
    "leader-set",
    "network-get",
    "open-port",
    "opened-ports",
    "payload-register",
    "payload-status-set",
    "payload-unregister",
    "pod-spec-get",
    "pod-spec-set",
    "relation-get",
    "relation-ids",
    "relation-list",
    "relation-model-get",
    "relation-set",
    "resource-get",
    "secret-add",
    "secret-get",
    "secret-grant",
    "secret-ids",
    "secret-info-get",
    "secret-remove",
    "secret-revoke",
    "secret-set",
    "state-delete",
    "state-get",
    "state-set",
    "status-get",
    "status-set",
    "storage-add",
    "storage-get",
    "storage-list",
    "unit-get",
];

/// The tool does something; the other names only say that they are not supported.
pub fn is_supported(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name)
}

/// Runs the tool `name`; `args` is argv without argv[0]. On `Outcome::Need` nothing has changed: fill `inputs` and
/// call again. Writes go to `context.writes`; what the reply lists as immediate is sent by the caller at once.
pub fn call(context: &mut HookContext, name: &str, args: &[Vec<u8>], inputs: &Inputs) -> Outcome {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return Outcome::Reply(unsupported::reply(context, name, args));
    };
    if STORING.contains(&name)
        && let Some(bad) = args.iter().find(|arg| std::str::from_utf8(arg).is_err())
    {
        let shown = quote::quote(&String::from_utf8_lossy(bad));
        return Outcome::Reply(Reply::error(2, &format!("argument {shown} is not UTF-8 text")));
    }
    let words: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    let parsed = match flags::parse(tool.flags, &words, context) {
        Ok(parsed) => parsed,
        Err(flags::Stopped::Help) => return Outcome::Reply(Reply::printed(help::text(tool, context))),
        Err(flags::Stopped::Wrong(text)) => return Outcome::Reply(Reply::error(2, &text)),
    };
    let ignored_format = tool.flags.contains(&flags::IGNORED_FORMAT) && parsed.text("format").is_some();
    let mut call = Call { context, parsed, inputs };
    let result = (tool.run)(&mut call);
    let mut reply = match result {
        Ok(answer) => reply(answer, tool, &call.parsed),
        Err(Stop::Usage(text)) => return Outcome::Reply(Reply::error(2, &text)),
        Err(Stop::Failed(text)) => Reply::error(1, &text),
        Err(Stop::Need(need)) => return Outcome::Need(need),
    };
    if ignored_format {
        // Juju's warning has no newline.
        let warning = format!("--format flag deprecated for command {}", quote::quote(name));
        reply.stderr.splice(0..0, warning.into_bytes());
    }
    Outcome::Reply(reply)
}

/// Writes an answer in the format asked for, to stdout or to the file asked for.
fn reply(answer: Answer, tool: &Tool, parsed: &flags::Parsed) -> Reply {
    let formats = tool.flags.iter().find_map(|flag| match flag.kind {
        flags::Kind::Format(formats) => Some(formats),
        flags::Kind::Switch | flags::Kind::Text | flags::Kind::Relation => None,
    });
    let mut reply = Reply { immediate: answer.immediate, ..Reply::default() };
    if let (Some(value), Some(formats)) = (answer.value, formats) {
        let asked = parsed.text("format");
        let format = formats.iter().find(|format| Some(format.name()) == asked).unwrap_or(&formats[0]);
        let printed = format.write(&value).into_bytes();
        match parsed.text("output") {
            Some(path) => reply.output_file = Some((path.to_owned(), printed)),
            None => reply.stdout = printed,
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{call, context};

    #[test]
    fn every_tool_is_named_once_and_has_help() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        for tool in TOOLS {
            assert!(NAMES.contains(&tool.name), "{}", tool.name);
        }
        for name in NAMES {
            let reply = call(&mut context(), name, &["--help"]);
            assert_eq!(reply.code, 0, "{name}");
            let stdout = String::from_utf8(reply.stdout).unwrap();
            assert!(stdout.starts_with(&format!("Usage: {name}")), "{stdout}");
            assert!(stdout.contains("\n\nSummary:\n"), "{stdout}");
        }
    }

    #[test]
    fn what_is_not_supported_fails_with_one_line() {
        for name in NAMES.iter().filter(|name| !is_supported(name)) {
            let reply = call(&mut context(), name, &["x"]);
            assert_eq!((reply.code, reply.stdout), (1, Vec::new()));
            assert_eq!(reply.stderr, format!("ERROR {name} is not supported yet\n").into_bytes());
        }
    }

    #[test]
    fn an_unknown_tool_is_a_bad_request() {
        let reply = call(&mut context(), "function-get", &[]);
        assert_eq!(
            (reply.code, reply.stderr),
            (1, b"ERROR bad request: unknown command: function-get\n".to_vec())
        );
    }

    #[test]
    fn the_format_warning_has_no_newline_and_no_effect_on_the_exit_code() {
        let reply = call(&mut context(), "open-port", &["--format", "json", "80"]);
        let warning = b"--format flag deprecated for command \"open-port\"".to_vec();
        assert_eq!((reply.code, reply.stderr), (0, warning));
    }

    #[test]
    fn output_goes_to_the_file_that_is_named() {
        let reply = call(&mut context(), "is-leader", &["-o", "out.txt"]);
        assert_eq!(reply.output_file, Some(("out.txt".to_owned(), b"True\n".to_vec())));
        assert_eq!(reply.stdout, b"");
    }

    #[test]
    fn stored_text_must_be_utf_8_and_shown_text_need_not() {
        let mut context = context();
        let outcome = super::call(&mut context, "state-set", &[b"k=\xff".to_vec()], &Inputs::default());
        assert!(matches!(outcome, Outcome::Reply(Reply { code: 2, .. })));
        let outcome = super::call(&mut context, "juju-log", &[b"\xff".to_vec()], &Inputs::default());
        assert!(matches!(outcome, Outcome::Reply(Reply { code: 0, .. })));
        assert!(context.writes == state::unit::hook::Writes::default());
    }
}
