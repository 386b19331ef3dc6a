//! The hook tools: each tool is a pure function of its arguments and the context of the hook (spec/hook-tools.md).
//!
//! This crate does no I/O. A tool that requires standard input, a file or an omitted bag returns a [`Need`], and the
//! unit agent calls it again with the content. Output and error texts are those of Juju, byte for byte, because charms
//! parse them. The unit agent calls [`call`] for each frame that it receives from `pintle-hook`.
//!
//! Reading order: this file (from a name to a tool, exit codes), `tool` (the parts of a tool), `flags`, then one file
//! for each tool, and `format`, `yaml` and `json` for the output.
//!
//! A new tool needs a file of its own with a `Tool` and its unit tests, and here its `mod` and a row of `TOOLS`. Everything
//! else about it (flags, help, whether it reads or writes the content of a secret) is a field of its `Tool`. `docs/reference/hook-tools.md` lists it, and its cases are added to
//! `tests/conformance/own.yaml`.

#![warn(missing_docs)]

mod action_fail;
mod action_get;
mod action_log;
mod action_set;
mod add_metric;
mod application_version_set;
mod config_get;
mod credential_get;
mod flags;
mod format;
mod goal_state;
mod help;
mod is_leader;
mod json;
mod juju_exec;
mod juju_log;
mod juju_reboot;
mod k8s_spec;
mod key_value;
mod leader_get;
mod leader_set;
mod natural_order;
mod network_get;
mod number;
mod opened_ports;
mod payload;
mod ports;
mod quote;
mod relation_get;
mod relation_ids;
mod relation_list;
mod relation_model_get;
mod relation_set;
mod resource_get;
mod secret_access;
mod secret_get;
mod secret_info;
mod secret_set;
mod secret_time;
mod secret_uri;
mod secret_values;
mod settings_file;
mod state_get;
mod state_set;
mod status_get;
mod status_set;
mod storage_add;
mod storage_get;
mod storage_list;
#[cfg(test)]
mod test_context;
mod tool;
mod unit_get;
mod value;
mod yaml;
mod yaml_plain;

pub use format::ToolFormat;
pub use tool::{CallOutcome, Inputs, Need, ResourceRequest, SecretAnswer, SecretRequest, ToolReply};
pub use value::Value;

use state::unit::hook_context::HookContext;
use tool::{Invocation, Tool, ToolError, ToolOutput};

/// Every tool, in the order of the names.
const TOOLS: &[&Tool] = &[
    &action_fail::TOOL,
    &action_get::TOOL,
    &action_log::TOOL,
    &action_set::TOOL,
    &add_metric::TOOL,
    &application_version_set::TOOL,
    &ports::CLOSE,
    &config_get::TOOL,
    &credential_get::TOOL,
    &goal_state::TOOL,
    &is_leader::TOOL,
    &juju_exec::EXEC,
    &juju_log::TOOL,
    &juju_reboot::TOOL,
    &juju_exec::RUN,
    &k8s_spec::RAW_GET,
    &k8s_spec::RAW_SET,
    &k8s_spec::SPEC_GET,
    &k8s_spec::SPEC_SET,
    &leader_get::TOOL,
    &leader_set::TOOL,
    &network_get::TOOL,
    &ports::OPEN,
    &opened_ports::TOOL,
    &payload::REGISTER,
    &payload::STATUS_SET,
    &payload::UNREGISTER,
    &k8s_spec::POD_SPEC_GET,
    &k8s_spec::POD_SPEC_SET,
    &relation_get::TOOL,
    &relation_ids::TOOL,
    &relation_list::TOOL,
    &relation_model_get::TOOL,
    &relation_set::TOOL,
    &resource_get::TOOL,
    &secret_set::ADD,
    &secret_get::TOOL,
    &secret_access::GRANT,
    &secret_info::IDS,
    &secret_info::INFO,
    &secret_access::REMOVE,
    &secret_access::REVOKE,
    &secret_set::SET,
    &state_set::DELETE,
    &state_get::TOOL,
    &state_set::TOOL,
    &status_get::TOOL,
    &status_set::TOOL,
    &storage_add::TOOL,
    &storage_get::TOOL,
    &storage_list::TOOL,
    &unit_get::TOOL,
];

/// The sorted names of all tools: what the `PATH` of a hook offers.
pub const NAMES: [&str; TOOLS.len()] = {
    let mut names = [""; TOOLS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TOOLS[at].name;
        at += 1;
    }
    names
};

/// Whether the arguments, inputs or output of this tool may contain the content of a secret: the caller must not store
/// or log them.
pub fn is_confidential(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name && tool.is_confidential)
}

/// Runs the tool `name`. `args` is argv without argv\[0\].
///
/// The tool writes to `context.writes`. The caller sends `reports` of the reply at once. After [`CallOutcome::Need`]
/// nothing has changed: the caller adds the content to `inputs` (a bag to `context`) and calls again.
pub fn call(context: &mut HookContext, name: &str, args: &[Vec<u8>], inputs: &Inputs) -> CallOutcome {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return CallOutcome::Reply(ToolReply::error(1, &format!("bad request: unknown command: {name}")));
    };
    if tool.requires_utf8
        && let Some(bad) = args.iter().find(|arg| std::str::from_utf8(arg).is_err())
    {
        let shown = quote::quote(&String::from_utf8_lossy(bad));
        return CallOutcome::Reply(ToolReply::error(2, &format!("argument {shown} is not UTF-8 text")));
    }
    let words: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    let parsed = match flags::parse(tool.flags, &words, context) {
        Ok(parsed) => parsed,
        Err(flags::ParseStop::Help) => {
            return CallOutcome::Reply(ToolReply::printed(help::text(tool, context)));
        }
        Err(flags::ParseStop::UsageError(text)) => return CallOutcome::Reply(ToolReply::error(2, &text)),
    };
    let ignored_format = tool.flags.contains(&flags::IGNORED_FORMAT) && parsed.text("format").is_some();
    let mut call = Invocation { context, parsed, inputs };
    let result = (tool.run)(&mut call);
    let mut reply = match result {
        Ok(output) => reply(output, tool, &call.parsed),
        Err(ToolError::Usage(text)) => return CallOutcome::Reply(ToolReply::error(2, &text)),
        Err(ToolError::Failed(text)) => ToolReply::error(1, &text),
        Err(ToolError::Need(need)) => return CallOutcome::Need(need),
    };
    if ignored_format {
        // Juju's warning has no newline.
        let warning = format!("--format flag deprecated for command {}", quote::quote(name));
        reply.stderr.splice(0..0, warning.into_bytes());
    }
    CallOutcome::Reply(reply)
}

/// Formats the output of a tool as `--format` requests, for stdout or for the file of `--output`.
fn reply(output: ToolOutput, tool: &Tool, parsed: &flags::ParsedArguments) -> ToolReply {
    let formats = tool.flags.iter().find_map(|flag| match flag.kind {
        flags::FlagKind::Format(formats) => Some(formats),
        flags::FlagKind::Switch
        | flags::FlagKind::Text
        | flags::FlagKind::Relation
        | flags::FlagKind::Storage => None,
    });
    let mut reply = ToolReply { reports: output.reports, ..ToolReply::default() };
    if let Some(line) = output.line {
        reply.stdout = format!("{line}\n").into_bytes();
    }
    if let Some(text) = output.unterminated {
        reply.stdout = text.into_bytes();
    }
    if let (Some(value), Some(formats)) = (output.value, formats) {
        let name = parsed.text("format");
        let format = formats.iter().find(|format| Some(format.name()) == name).unwrap_or(&formats[0]);
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
    use test_context::{call, context};

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
    fn the_tools_that_handle_the_content_of_a_secret_are_confidential() {
        let secret = "9m4e2mr0ui3e8a215n4g".parse().unwrap();
        let sealed = Some(Ok(SecretAnswer::Sealed { secret, sealed: "sealed".to_owned() }));
        let mut context = HookContext { leader: true, ..context() };
        let added = super::call(
            &mut context,
            "secret-add",
            &[b"key=value".to_vec()],
            &Inputs { secret: sealed, ..Inputs::default() },
        );
        assert!(matches!(added, CallOutcome::Reply(ToolReply { code: 0, .. })), "{added:?}");
        let uri = format!("secret:{secret}");
        let handles_content = |name: &&str| {
            let arguments = [&[][..], &["key=value"], &[&uri], &[&uri, "key=value"]];
            arguments.iter().any(|words| {
                let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
                let outcome = super::call(&mut context.clone(), name, &words, &Inputs::default());
                matches!(outcome, CallOutcome::Need(Need::Secret(_)))
            })
        };
        let found: Vec<&str> = NAMES.into_iter().filter(handles_content).collect();
        assert!(found.contains(&"secret-get") && found.contains(&"secret-set"), "{found:?}");
        assert_eq!(found, NAMES.into_iter().filter(|name| is_confidential(name)).collect::<Vec<_>>());
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
    fn output_is_written_to_the_file_that_is_named() {
        let reply = call(&mut context(), "is-leader", &["-o", "out.txt"]);
        assert_eq!(reply.output_file, Some(("out.txt".to_owned(), b"True\n".to_vec())));
        assert_eq!(reply.stdout, b"");
    }

    #[test]
    fn stored_text_must_be_utf_8_and_printed_text_need_not() {
        let mut context = context();
        let outcome = super::call(&mut context, "state-set", &[b"k=\xff".to_vec()], &Inputs::default());
        assert!(matches!(outcome, CallOutcome::Reply(ToolReply { code: 2, .. })));
        let outcome = super::call(&mut context, "juju-log", &[b"\xff".to_vec()], &Inputs::default());
        assert!(matches!(outcome, CallOutcome::Reply(ToolReply { code: 0, .. })));
        assert!(context.writes == state::unit::hook_context::Writes::default());
    }
}
