//! Tools that exist so that charms find them, and say that they are not supported.

use crate::NAMES;
use crate::help;
use crate::tool::Reply;
use state::unit::hook::{Cause, HookContext};

/// Help, or one line that says so; for a name that is no tool at all, a bad request.
pub fn reply(context: &HookContext, name: &str, args: &[Vec<u8>]) -> Reply {
    if !NAMES.contains(&name) {
        return Reply::error(1, &format!("bad request: unknown command: {name}"));
    }
    let mut flags = args.iter().take_while(|arg| *arg != b"--");
    if flags.any(|arg| arg == b"--help" || arg == b"-h") {
        return Reply::printed(help_text(context, name));
    }
    Reply::error(1, &format!("{name} is not supported yet"))
}

fn help_text(context: &HookContext, name: &str) -> String {
    let mut text = help::usage(name, name == "storage-get", "", "This tool is not supported yet.");
    if name == "storage-get" {
        let own = match &context.cause {
            Cause::Storage { id, .. } => id,
            Cause::Hook(_)
            | Cause::Relation { .. }
            | Cause::Secret { .. }
            | Cause::Workload { .. }
            | Cause::Action(_)
            | Cause::Commands(_) => "",
        };
        text.push_str("\nOptions:\n");
        text.push_str(&help::option(&["s"], &format!("  (= {own})"), "specify a storage instance by id"));
    }
    text
}
