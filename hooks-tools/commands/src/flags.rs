//! Parses the arguments of a tool by the grammar of gnuflag, which Juju uses (spec/hook-tools.md 1.3).
//!
//! Flags and positional arguments may be in any order. The first error is reported, in the words of gnuflag.

use crate::format::ToolFormat;
use crate::quote::quote;
use state::terms::names::RelationNumber;
use state::terms::storage::StorageId;
use state::unit::hook_context::HookContext;
use std::collections::BTreeMap;

/// One flag of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flag {
    /// All names, without hyphens. The code of the tool uses the first one.
    pub names: &'static [&'static str],
    /// The values that it takes.
    pub kind: FlagKind,
    /// One sentence for the help.
    pub help: &'static str,
}

/// The values that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlagKind {
    /// No value, or a boolean after an equals sign.
    Switch,
    /// Any text.
    Text,
    /// One of these formats. The first is the default.
    Format(&'static [ToolFormat]),
    /// A relation of the context. The relation of the hook is the default.
    Relation,
    /// Storage of the context. The storage of the hook is the default.
    Storage,
}

/// `--format` of the tools that the spec marks with `[fmt]`.
pub const FORMAT: Flag = Flag {
    names: &["format"],
    kind: FlagKind::Format(&[ToolFormat::Smart, ToolFormat::Yaml, ToolFormat::Json]),
    help: "Specify output format (json|smart|yaml)",
};

/// `--format` of the tools that the spec marks with `[yj]`.
pub const FORMAT_WITHOUT_SMART: Flag = Flag {
    names: &["format"],
    kind: FlagKind::Format(&[ToolFormat::Yaml, ToolFormat::Json]),
    help: "Specify output format (json|yaml)",
};

/// `--output`: writes the output to a file.
pub const OUTPUT: Flag =
    Flag { names: &["output", "o"], kind: FlagKind::Text, help: "Specify an output file" };

/// `-r`: the relation that the tool reads or writes.
pub const RELATION: Flag =
    Flag { names: &["r", "relation"], kind: FlagKind::Relation, help: "Specify a relation by id" };

/// `--format` of tools that print nothing. They accept it for compatibility and print a warning.
pub const IGNORED_FORMAT: Flag =
    Flag { names: &["format"], kind: FlagKind::Text, help: "deprecated format flag" };

/// The parsed arguments of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedArguments {
    values: BTreeMap<&'static str, String>,
    /// The relation of `-r`, or that of the hook.
    pub relation: Option<RelationNumber>,
    /// The storage of `-s`, or that of the hook.
    pub storage: Option<StorageId>,
    /// The arguments that are neither flags nor values of flags, in order.
    pub positionals: Vec<String>,
}

impl ParsedArguments {
    /// Whether a switch is given, and not as false.
    pub fn is_on(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value == "true")
    }

    /// The value of a flag; `None` if the flag is not given or its value is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

/// Why parsing stopped before the end.
#[derive(Clone, Debug, PartialEq)]
pub enum ParseStop {
    /// `--help` or `-h` is given.
    Help,
    /// The arguments are invalid; the text is for the charm.
    UsageError(String),
}

/// Parses `words` from left to right.
///
/// # Errors
/// The first invalid argument, or `--help`, whichever comes first.
pub fn parse(
    flags: &'static [Flag],
    words: &[String],
    context: &HookContext,
) -> Result<ParsedArguments, ParseStop> {
    let hook_relation = context.trigger.relation_context().map(|about| about.relation);
    let storage = context.trigger.storage().cloned();
    let mut parsed = ParsedArguments { relation: hook_relation, storage, ..ParsedArguments::default() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            parsed.positionals.extend(rest.cloned());
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some(("", _)) => {
                    return Err(ParseStop::UsageError(format!("empty option in argument {}", quote(word))));
                }
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = find(flags, name)?;
            let value = match (value, flag.kind) {
                (None, FlagKind::Switch) => "true".to_owned(),
                (None, FlagKind::Text | FlagKind::Format(_) | FlagKind::Relation | FlagKind::Storage) => {
                    next_value(&mut rest, name)?
                }
                (Some(value), _) => value,
            };
            parsed.set(flag, name, value, context)?;
        } else if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            let mut letters = cluster.chars();
            while let Some(letter) = letters.next() {
                let name = letter.to_string();
                let flag = find(flags, &name)?;
                let attached = letters.as_str().to_owned();
                let value = if flag.kind == FlagKind::Switch && !attached.starts_with('=') {
                    "true".to_owned()
                } else if attached.is_empty() {
                    next_value(&mut rest, &name)?
                } else {
                    letters = "".chars();
                    attached
                };
                parsed.set(flag, &name, value, context)?;
            }
        } else {
            parsed.positionals.push(word.clone());
        }
    }
    Ok(parsed)
}

impl ParsedArguments {
    fn set(
        &mut self,
        flag: &'static Flag,
        name: &str,
        value: String,
        context: &HookContext,
    ) -> Result<(), ParseStop> {
        let invalid = |reason: String| {
            ParseStop::UsageError(format!(
                "invalid value {} for option {}: {reason}",
                quote(&value),
                dashed(name)
            ))
        };
        let stored = match flag.kind {
            FlagKind::Switch => go_bool(&value)
                .ok_or_else(|| {
                    invalid(format!("strconv.ParseBool: parsing {}: invalid syntax", quote(&value)))
                })?
                .to_string(),
            FlagKind::Text => value,
            FlagKind::Format(formats) => {
                let is_known = formats.iter().any(|format| format.name() == value);
                if !is_known {
                    return Err(invalid(format!("unknown format {}", quote(&value))));
                }
                value
            }
            FlagKind::Relation => {
                self.relation = Some(relation(&value, context).map_err(|reason| invalid(reason.to_owned()))?);
                value
            }
            FlagKind::Storage => {
                self.storage = Some(storage(&value, context).map_err(invalid)?);
                value
            }
        };
        self.values.insert(flag.names[0], stored);
        Ok(())
    }
}

/// Parses a relation id. Only the number after the last colon counts (spec/hook-tools.md 1.9).
fn relation(text: &str, context: &HookContext) -> Result<RelationNumber, &'static str> {
    let number = text.rsplit(':').next().unwrap_or_default();
    let number: i64 = number.parse().map_err(|_| "invalid relation id")?;
    RelationNumber::try_from(number)
        .ok()
        .filter(|number| context.relations.contains_key(number))
        .ok_or("relation not found")
}

/// Parses the id of storage of the unit.
fn storage(text: &str, context: &HookContext) -> Result<StorageId, String> {
    let id: StorageId = text.parse().map_err(|_| format!("invalid storage ID {}", quote(text)))?;
    match context.storage.contains_key(&id) {
        true => Ok(id),
        false => Err(format!("storage {} not found", quote(text))),
    }
}

fn find(flags: &'static [Flag], name: &str) -> Result<&'static Flag, ParseStop> {
    match flags.iter().find(|flag| flag.names.contains(&name)) {
        Some(flag) => Ok(flag),
        None if name == "help" || name == "h" => Err(ParseStop::Help),
        None => Err(ParseStop::UsageError(format!("option provided but not defined: {}", dashed(name)))),
    }
}

fn next_value<'a>(rest: &mut impl Iterator<Item = &'a String>, name: &str) -> Result<String, ParseStop> {
    rest.next()
        .cloned()
        .ok_or_else(|| ParseStop::UsageError(format!("option needs an argument: {}", dashed(name))))
}

/// A flag as the user writes it: `-r`, `--relation`.
pub fn dashed(name: &str) -> String {
    if name.len() > 1 { format!("--{name}") } else { format!("-{name}") }
}

/// Parses a boolean as strconv.ParseBool of Go does.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::context;

    const FLAGS: &[Flag] = &[
        Flag { names: &["all", "a"], kind: FlagKind::Switch, help: "" },
        Flag { names: &["b"], kind: FlagKind::Switch, help: "" },
        Flag { names: &["file", "f"], kind: FlagKind::Text, help: "" },
        Flag { names: &["format"], kind: FlagKind::Format(&[ToolFormat::Yaml, ToolFormat::Json]), help: "" },
        Flag { names: &["r", "relation"], kind: FlagKind::Relation, help: "" },
    ];

    fn parsed(words: &[&str]) -> Result<ParsedArguments, ParseStop> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        parse(FLAGS, &words, &context())
    }

    fn usage_error(words: &[&str]) -> String {
        match parsed(words) {
            Err(ParseStop::UsageError(text)) => text,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn flags_and_positionals_mix_in_any_order() {
        let parsed = parsed(&["x", "-ab", "", "-f", "-v", "-", "--", "-a"]).unwrap();
        assert!(parsed.is_on("all") && parsed.is_on("b"));
        assert_eq!(parsed.text("file"), Some("-v"));
        assert_eq!(parsed.positionals, ["x", "", "-", "-a"]);
    }

    #[test]
    fn values_may_be_attached_and_the_last_value_counts() {
        let parsed = parsed(&["-fone", "--file=two", "-f=three", "--all", "--all=F"]).unwrap();
        assert_eq!(parsed.text("file"), Some("=three"));
        assert!(!parsed.is_on("all"));
    }

    #[test]
    fn a_switch_takes_no_separate_value() {
        let parsed = parsed(&["--all", "false"]).unwrap();
        assert!(parsed.is_on("all"));
        assert_eq!(parsed.positionals, ["false"]);
    }

    #[test]
    fn invalid_flags_are_reported_in_the_words_of_the_spec() {
        assert_eq!(usage_error(&["--foo=1"]), "option provided but not defined: --foo");
        assert_eq!(usage_error(&["-all"]), "option provided but not defined: -l");
        assert_eq!(usage_error(&["--file"]), "option needs an argument: --file");
        assert_eq!(usage_error(&["-af"]), "option needs an argument: -f");
        assert_eq!(usage_error(&["--=x"]), "empty option in argument \"--=x\"");
        assert_eq!(
            usage_error(&["--all=maybe"]),
            "invalid value \"maybe\" for option --all: strconv.ParseBool: parsing \"maybe\": invalid syntax"
        );
        assert_eq!(
            usage_error(&["--format", "smart"]),
            "invalid value \"smart\" for option --format: unknown format \"smart\""
        );
    }

    #[test]
    fn a_relation_is_found_by_the_number_after_the_last_colon() {
        for text in ["1", "db:1", "other:1", "a:b:1"] {
            assert_eq!(parsed(&["-r", text]).unwrap().relation, Some(1));
        }
        assert_eq!(usage_error(&["-r99"]), "invalid value \"99\" for option -r: relation not found");
        assert_eq!(
            usage_error(&["--relation", "db:"]),
            "invalid value \"db:\" for option --relation: invalid relation id"
        );
    }

    #[test]
    fn help_counts_only_before_the_first_error() {
        assert_eq!(parsed(&["x", "-ah"]), Err(ParseStop::Help));
        assert_eq!(parsed(&["-f", "--help"]).unwrap().text("file"), Some("--help"));
        assert!(matches!(parsed(&["--foo", "--help"]), Err(ParseStop::UsageError(_))));
    }
}
