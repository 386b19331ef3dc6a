//! Answers calls of tools that are not supported.
//!
//! Their names exist on the PATH of a hook because charms crash when a tool is missing.

use crate::help;
use crate::tool::ToolReply;
use state::unit::hook_context::{HookContext, HookTrigger};

/// Replies with the help, or with one line that the tool is not supported.
pub fn reply(context: &HookContext, name: &str, args: &[Vec<u8>]) -> ToolReply {
    let mut flags = args.iter().take_while(|arg| *arg != b"--");
    if flags.any(|arg| arg == b"--help" || arg == b"-h") {
        return ToolReply::printed(help_text(context, name));
    }
    ToolReply::error(1, &format!("{name} is not supported yet"))
}

fn help_text(context: &HookContext, name: &str) -> String {
    let mut text = help::usage(name, name == "storage-get", "", "This tool is not supported yet.");
    if name == "storage-get" {
        let hook_storage = match &context.trigger {
            HookTrigger::Storage { id, .. } => id,
            HookTrigger::Hook(_)
            | HookTrigger::Relation { .. }
            | HookTrigger::Secret { .. }
            | HookTrigger::Workload { .. }
            | HookTrigger::Action(_)
            | HookTrigger::Commands(_) => "",
        };
        text.push_str("\nOptions:\n");
        text.push_str(&help::option(
            &["s"],
            &format!("  (= {hook_storage})"),
            "specify a storage instance by id",
        ));
    }
    text
}
