//! Completes the commands of hints: a hint that is pasted into a shell must reach the system that printed it.
//!
//! Hints are written by the controller, by `api::text` and by each command, and none of them knows the flags of this
//! command line. Errors are completed in `commands::dispatch`, hints and warnings in `output`. A command that prints another
//! text with commands in it calls `Output::complete` with that text, and with nothing that a person or a charm has written.

use host::shell::quote;
use std::path::Path;

/// How a command of a hint begins.
const PROGRAM: &str = "pintle ";
/// The characters that end a command in a hint.
const ENDS: [char; 6] = [',', ';', '"', ')', '(', '\n'];
/// The commands that use no model, or name it otherwise.
pub const WITHOUT_MODEL: [&str; 11] = [
    "up",
    "down",
    "models",
    "add-model",
    "destroy-model",
    "show-model",
    "switch",
    "controllers",
    "show-controller",
    "whoami",
    "version",
];

/// The flags of this command line that select the system: each is empty, or begins with a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags {
    data: String,
    model: String,
}

impl CommandFlags {
    /// These flags.
    pub fn new(data: Option<&Path>, model: Option<&str>) -> CommandFlags {
        let dir = data.and_then(|data| std::path::absolute(data).ok());
        let data = dir.map(|dir| format!(" --data {}", quote(&dir.to_string_lossy())));
        let model = model.map(|model| format!(" -m {}", quote(model)));
        CommandFlags { data: data.unwrap_or_default(), model: model.unwrap_or_default() }
    }

    /// Returns the text with the flags in each of its commands, after the verb.
    pub fn complete(&self, text: &str) -> String {
        if (self.data.is_empty() && self.model.is_empty()) || !text.contains(PROGRAM) {
            return text.to_owned();
        }
        let mut completed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(PROGRAM) {
            let (before, command) = rest.split_at(at + PROGRAM.len());
            let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
            let (verb, arguments) = command.split_at(command.find(|c| !is_word(c)).unwrap_or(command.len()));
            completed += before;
            completed += verb;
            if verb.starts_with(|c: char| c.is_ascii_lowercase()) && verb != "help" {
                completed += &self.missing(verb, arguments);
            }
            rest = arguments;
        }
        completed + rest
    }

    /// The flags that a command lacks. `arguments`: the text after its verb.
    fn missing(&self, verb: &str, arguments: &str) -> String {
        let arguments = arguments.split(ENDS).next().unwrap_or_default();
        let data = if arguments.contains(" --data ") { "" } else { &self.data };
        let has_model = WITHOUT_MODEL.contains(&verb) || arguments.contains(" -m ");
        let model = if has_model { "" } else { &self.model };
        format!("{data}{model}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(data: Option<&str>, model: Option<&str>, text: &str) -> String {
        CommandFlags::new(data.map(Path::new), model).complete(text)
    }

    #[test]
    fn each_command_of_a_hint_gets_the_flags_that_it_lacks() {
        let (data, model) = (Some("/a b"), Some("shop"));
        for (text, completed) in [
            ("pintle down, then pintle up", "pintle down --data '/a b', then pintle up --data '/a b'"),
            ("see: pintle why web/0", "see: pintle why --data '/a b' -m shop web/0"),
            ("(pintle why model -m dev)", "(pintle why --data '/a b' model -m dev)"),
            ("pintle --data /c up, pintle-agent show DIR", "pintle --data /c up, pintle-agent show DIR"),
            ("see: pintle help, or Pintle itself", "see: pintle help, or Pintle itself"),
            ("pintle up", "pintle up --data '/a b'"),
        ] {
            assert_eq!(complete(data, model, text), completed);
        }
        for (data, model, completed) in [
            (None, model, "pintle resolved -m shop web/0"),
            (data, None, "pintle resolved --data '/a b' web/0"),
            (None, None, "pintle resolved web/0"),
        ] {
            assert_eq!(complete(data, model, "pintle resolved web/0"), completed);
        }
    }
}
