//! Answers calls of tools that are not supported.
//!
//! Their names exist on the PATH of a hook because charms crash when a tool is missing.

use crate::help;
use crate::tool::ToolReply;

/// Replies with the help, or with one line that the tool is not supported.
pub fn reply(name: &str, args: &[Vec<u8>]) -> ToolReply {
    let mut flags = args.iter().take_while(|arg| *arg != b"--");
    if flags.any(|arg| arg == b"--help" || arg == b"-h") {
        return ToolReply::printed(help_text(name));
    }
    ToolReply::error(1, &format!("{name} is not supported yet"))
}

fn help_text(name: &str) -> String {
    help::usage(name, false, "", "This tool is not supported yet.")
}
