//! The text of `--help` (spec/hook-tools.md 1.10).
//!
//! Charms parse parts of it: charm-helpers searches for `--file` in the help of relation-set, and older versions of ops
//! for `-s  (= data/0)` in the help of storage-get.

use crate::flags::{Flag, FlagKind, dashed};
use crate::tool::Tool;
use state::unit::hook_context::HookContext;

/// The help of a tool. The default that it shows for `-r` is the relation of the hook in `context`.
pub fn text(tool: &Tool, context: &HookContext) -> String {
    let mut text = usage(tool.name, !tool.flags.is_empty(), tool.arguments, tool.summary);
    let mut flags: Vec<(Vec<&str>, &Flag)> = tool
        .flags
        .iter()
        .map(|flag| {
            let mut names = flag.names.to_vec();
            names.sort_by_key(|name| name.len());
            (names, flag)
        })
        .collect();
    flags.sort_by_key(|(names, _)| names[0]);
    if !flags.is_empty() {
        text.push_str("\nOptions:\n");
    }
    for (names, flag) in flags {
        let default = match flag.kind {
            FlagKind::Switch => "  (= false)".to_owned(),
            FlagKind::Text => " (= \"\")".to_owned(),
            FlagKind::Format(formats) => format!("  (= {})", formats[0].name()),
            FlagKind::Storage => {
                let storage = context.trigger.storage().map(ToString::to_string);
                format!("  (= {})", storage.unwrap_or_default())
            }
            FlagKind::Relation => {
                let about = context.trigger.relation_context();
                format!(
                    "  (= {})",
                    about.and_then(|about| context.relation_id(about.relation)).unwrap_or_default()
                )
            }
        };
        text.push_str(&option(&names, &default, flag.help));
    }
    if !tool.details.is_empty() {
        text.push_str(&format!("\nDetails:\n{}\n", tool.details));
    }
    text
}

/// The first lines of the help of every tool.
pub fn usage(name: &str, options: bool, arguments: &str, summary: &str) -> String {
    let options = if options { " [options]" } else { "" };
    let blank = if arguments.is_empty() { "" } else { " " };
    format!("Usage: {name}{options}{blank}{arguments}\n\nSummary:\n{summary}\n")
}

/// The lines of one option: its names, its default, and a description.
pub fn option(names: &[&str], default: &str, help: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| dashed(name)).collect();
    format!("{}{default}\n    {help}\n", names.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context, relation_context};

    fn help(name: &str, context: &mut super::HookContext) -> String {
        String::from_utf8(call(context, name, &["-h"]).stdout).unwrap()
    }

    #[test]
    fn options_are_sorted_with_their_defaults() {
        let text = help("relation-get", &mut relation_context());
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('-')).collect();
        let expected =
            ["--app  (= false)", "--format  (= smart)", "-o, --output (= \"\")", "-r, --relation  (= db:1)"];
        assert_eq!(lines, expected);
        assert!(help("relation-get", &mut context()).contains("-r, --relation  (= )\n"));
    }

    #[test]
    fn the_help_of_relation_set_contains_the_file_option() {
        assert!(help("relation-set", &mut context()).contains("--file (= \"\")\n"));
    }

    #[test]
    fn the_help_of_a_tool_without_flags_lists_no_options() {
        let text = help("application-version-set", &mut context());
        assert!(text.starts_with("Usage: application-version-set <new-version>\n"), "{text}");
        assert!(!text.contains("Options:"));
    }
}
