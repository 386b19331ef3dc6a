//! Forms of flags that Juju's commands take and clap does not: boolean flags with a value (`--force=false`,
//! `--no-prompt=true`), and the name of the format that a command has without the flag (`--format tabular`).
//!
//! The words of the command line are rewritten before they are parsed: a flag that is true loses its value, and one that is
//! false, or names the default format, is removed.

use clap::{ArgAction, Command};

/// What Juju calls the formats that commands have here without the flag `--format`.
const DEFAULT_FORMATS: [&str; 4] = ["tabular", "plain", "smart", "constraints"];

/// The words, with the flags of the command in the forms of clap. What follows `--` is left as it is, and so is a value
/// that is none of Juju's, which clap refuses.
pub fn rewritten(words: Vec<String>, command: &Command) -> Vec<String> {
    let (mut command, mut rewritten, mut words) = (command.clone(), Vec::new(), words.into_iter().peekable());
    rewritten.extend(words.next());
    while let Some(word) = words.next() {
        // the rest is of another program: `ssh web/0 tool --debug=true`
        let is_rest = !word.starts_with('-') && takes_rest(&command);
        if word == "--" || is_rest && command.find_subcommand(&word).is_none() {
            rewritten.push(word);
            break;
        }
        if let Some(sub) = command.find_subcommand(&word) {
            let inherited = command.get_arguments().filter(|arg| arg.is_global_set()).cloned();
            let inherited: Vec<_> =
                inherited.filter(|arg| sub.get_arguments().all(|own| own.get_id() != arg.get_id())).collect();
            command = sub.clone().args(inherited);
        }
        if word == "--format" && words.peek().is_some_and(|format| is_default_format(&command, format)) {
            words.next();
            continue;
        }
        match word.split_once('=') {
            Some(("--format", format)) if is_default_format(&command, format) => {}
            Some((flag, value)) if is_boolean(&command, flag) => match boolean(value) {
                Some(is_set) => rewritten.extend(is_set.then(|| flag.to_owned())),
                None => rewritten.push(word),
            },
            _ => rewritten.push(word),
        }
    }
    rewritten.extend(words);
    rewritten
}

/// Whether the words after the first argument of the command are not its own.
fn takes_rest(command: &Command) -> bool {
    command.get_arguments().any(clap::Arg::is_trailing_var_arg_set)
}

/// Whether the command has a flag for the format, which does not know this name of its default.
fn is_default_format(command: &Command, name: &str) -> bool {
    let flag = command.get_arguments().find(|arg| arg.get_long() == Some("format"));
    let knows = |flag: &clap::Arg| flag.get_possible_values().iter().any(|value| value.matches(name, false));
    DEFAULT_FORMATS.contains(&name) && flag.is_some_and(|flag| !knows(flag))
}

/// The value of a word of Go's `strconv.ParseBool`.
fn boolean(word: &str) -> Option<bool> {
    match word {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn is_boolean(command: &Command, flag: &str) -> bool {
    let Some(name) = flag.strip_prefix("--") else { return false };
    let mut flags = command
        .get_arguments()
        .filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count));
    flags.any(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(name) || aliases.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::CommandFactory;

    #[track_caller]
    fn check(given: &[&str], expected: &[&str]) {
        let words = given.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(rewritten(words, &Arguments::command()), expected);
    }

    #[test]
    fn a_true_flag_loses_its_value_and_a_false_one_is_removed() {
        check(
            &["juju", "remove-application", "web", "--no-prompt=true", "--force=f", "--destroy-storage=1"],
            &["juju", "remove-application", "web", "--no-prompt", "--destroy-storage"],
        );
        check(&["juju", "--debug=true", "status", "--relations=false"], &["juju", "--debug", "status"]);
        check(&["juju", "status", "--debug=false", "--color=T"], &["juju", "status", "--color"]);
    }

    #[test]
    fn the_name_of_the_default_format_is_removed() {
        check(&["juju", "models", "--format", "tabular"], &["juju", "models"]);
        check(&["juju", "show-task", "7", "--format=plain"], &["juju", "show-task", "7"]);
        for words in [
            &["juju", "status", "--format", "tabular"][..],
            &["juju", "run", "web/0", "go", "--format=plain"],
            &["juju", "models", "--format", "json"],
        ] {
            check(words, words);
        }
    }

    #[test]
    fn other_words_stay() {
        for words in [
            &["juju", "config", "web", "debug=true"][..],
            &["juju", "exec", "--unit", "web/0", "--parallel=false", "--", "x", "--background=true"],
            &["juju", "ssh", "web/0", "tool", "--debug=true", "--verbose=false"],
            &["juju", "remove-application", "web", "--force=maybe"],
            &["juju", "status", "--unknown=true", "--format=true"],
        ] {
            check(words, words);
        }
    }
}
