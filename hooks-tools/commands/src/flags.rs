//! The flag grammar of all tools, gnuflag's: flags and positionals in any order (spec/hook-tools.md 1.3).

use crate::format::Format;
use crate::quote::quote;
use state::names::RelationNumber;
use state::unit::hook::HookContext;
use std::collections::BTreeMap;

/// One flag of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flag {
    /// The first is what the tool's code calls it.
    pub names: &'static [&'static str],
    pub kind: Kind,
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Takes no value, or one behind an equals sign.
    Switch,
    Text,
    /// One of these formats; the first is the default.
    Format(&'static [Format]),
    /// A relation of the context; the hook's own is the default.
    Relation,
}

/// `[fmt]` tools.
pub const FORMAT: Flag = Flag {
    names: &["format"],
    kind: Kind::Format(&[Format::Smart, Format::Yaml, Format::Json]),
    help: "Specify output format (json|smart|yaml)",
};

/// `[yj]` tools.
pub const FORMAT_WITHOUT_SMART: Flag = Flag {
    names: &["format"],
    kind: Kind::Format(&[Format::Yaml, Format::Json]),
    help: "Specify output format (json|yaml)",
};

pub const OUTPUT: Flag = Flag { names: &["output", "o"], kind: Kind::Text, help: "Specify an output file" };

pub const RELATION: Flag =
    Flag { names: &["r", "relation"], kind: Kind::Relation, help: "Specify a relation by id" };

/// Tools that print nothing once took a format; they still do, and say that it does nothing.
pub const IGNORED_FORMAT: Flag =
    Flag { names: &["format"], kind: Kind::Text, help: "deprecated format flag" };

/// What a tool was called with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    values: BTreeMap<&'static str, String>,
    pub relation: Option<RelationNumber>,
    pub words: Vec<String>,
}

impl Parsed {
    /// A switch was given, and not as false.
    pub fn on(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| value == "true")
    }

    /// A flag's value; not given and given empty are the same.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stopped {
    Help,
    /// Usage error, for the charm.
    Wrong(String),
}

/// Reads `words` from left to right; the first thing that is wrong is reported.
pub fn parse(flags: &'static [Flag], words: &[String], context: &HookContext) -> Result<Parsed, Stopped> {
    let own = context.cause.counterpart().map(|about| about.relation);
    let mut parsed = Parsed { relation: own, ..Parsed::default() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            parsed.words.extend(rest.cloned());
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some(("", _)) => {
                    return Err(Stopped::Wrong(format!("empty option in argument {}", quote(word))));
                }
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = find(flags, name)?;
            let value = match (value, flag.kind) {
                (None, Kind::Switch) => "true".to_owned(),
                (None, Kind::Text | Kind::Format(_) | Kind::Relation) => next_value(&mut rest, name)?,
                (Some(value), _) => value,
            };
            parsed.set(flag, name, value, context)?;
        } else if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            let mut letters = cluster.chars();
            while let Some(letter) = letters.next() {
                let name = letter.to_string();
                let flag = find(flags, &name)?;
                let behind = letters.as_str().to_owned();
                let value = if flag.kind == Kind::Switch && !behind.starts_with('=') {
                    "true".to_owned()
                } else if behind.is_empty() {
                    next_value(&mut rest, &name)?
                } else {
                    letters = "".chars();
                    behind
                };
                parsed.set(flag, &name, value, context)?;
            }
        } else {
            parsed.words.push(word.clone());
        }
    }
    Ok(parsed)
}

impl Parsed {
    fn set(
        &mut self,
        flag: &'static Flag,
        name: &str,
        value: String,
        context: &HookContext,
    ) -> Result<(), Stopped> {
        let wrong = |reason: String| {
            Stopped::Wrong(format!("invalid value {} for option {}: {reason}", quote(&value), dashed(name)))
        };
        let kept = match flag.kind {
            Kind::Switch => go_bool(&value)
                .ok_or_else(|| {
                    wrong(format!("strconv.ParseBool: parsing {}: invalid syntax", quote(&value)))
                })?
                .to_string(),
            Kind::Text => value,
            Kind::Format(formats) => {
                let known = formats.iter().any(|format| format.name() == value);
                if !known {
                    return Err(wrong(format!("unknown format {}", quote(&value))));
                }
                value
            }
            Kind::Relation => {
                self.relation = Some(relation(&value, context).map_err(|reason| wrong(reason.to_owned()))?);
                value
            }
        };
        self.values.insert(flag.names[0], kept);
        Ok(())
    }
}

/// The text up to the last colon is not looked at (spec/hook-tools.md 1.9).
fn relation(text: &str, context: &HookContext) -> Result<RelationNumber, &'static str> {
    let number = text.rsplit(':').next().unwrap_or_default();
    let number: i64 = number.parse().map_err(|_| "invalid relation id")?;
    RelationNumber::try_from(number)
        .ok()
        .filter(|number| context.relations.contains_key(number))
        .ok_or("relation not found")
}

fn find(flags: &'static [Flag], name: &str) -> Result<&'static Flag, Stopped> {
    match flags.iter().find(|flag| flag.names.contains(&name)) {
        Some(flag) => Ok(flag),
        None if name == "help" || name == "h" => Err(Stopped::Help),
        None => Err(Stopped::Wrong(format!("option provided but not defined: {}", dashed(name)))),
    }
}

fn next_value<'a>(rest: &mut impl Iterator<Item = &'a String>, name: &str) -> Result<String, Stopped> {
    rest.next().cloned().ok_or_else(|| Stopped::Wrong(format!("option needs an argument: {}", dashed(name))))
}

/// `-r`, `--relation`.
pub fn dashed(name: &str) -> String {
    if name.len() > 1 { format!("--{name}") } else { format!("-{name}") }
}

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
    use crate::sample::context;

    const FLAGS: &[Flag] = &[
        Flag { names: &["all", "a"], kind: Kind::Switch, help: "" },
        Flag { names: &["b"], kind: Kind::Switch, help: "" },
        Flag { names: &["file", "f"], kind: Kind::Text, help: "" },
        Flag { names: &["format"], kind: Kind::Format(&[Format::Yaml, Format::Json]), help: "" },
        Flag { names: &["r", "relation"], kind: Kind::Relation, help: "" },
    ];

    fn parsed(words: &[&str]) -> Result<Parsed, Stopped> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        parse(FLAGS, &words, &context())
    }

    fn wrong(words: &[&str]) -> String {
        match parsed(words) {
            Err(Stopped::Wrong(text)) => text,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn flags_and_words_mix_in_any_order() {
        let parsed = parsed(&["x", "-ab", "", "-f", "-v", "-", "--", "-a"]).unwrap();
        assert!(parsed.on("all") && parsed.on("b"));
        assert_eq!(parsed.text("file"), Some("-v"));
        assert_eq!(parsed.words, ["x", "", "-", "-a"]);
    }

    #[test]
    fn values_may_follow_directly_and_the_last_wins() {
        let parsed = parsed(&["-fone", "--file=two", "-f=three", "--all", "--all=F"]).unwrap();
        assert_eq!(parsed.text("file"), Some("=three"));
        assert!(!parsed.on("all"));
    }

    #[test]
    fn a_switch_takes_no_separate_value() {
        let parsed = parsed(&["--all", "false"]).unwrap();
        assert!(parsed.on("all"));
        assert_eq!(parsed.words, ["false"]);
    }

    #[test]
    fn wrong_flags_are_told_in_the_words_of_the_spec() {
        assert_eq!(wrong(&["--foo=1"]), "option provided but not defined: --foo");
        assert_eq!(wrong(&["-all"]), "option provided but not defined: -l");
        assert_eq!(wrong(&["--file"]), "option needs an argument: --file");
        assert_eq!(wrong(&["-af"]), "option needs an argument: -f");
        assert_eq!(wrong(&["--=x"]), "empty option in argument \"--=x\"");
        assert_eq!(
            wrong(&["--all=maybe"]),
            "invalid value \"maybe\" for option --all: strconv.ParseBool: parsing \"maybe\": invalid syntax"
        );
        assert_eq!(
            wrong(&["--format", "smart"]),
            "invalid value \"smart\" for option --format: unknown format \"smart\""
        );
    }

    #[test]
    fn a_relation_is_found_by_the_number_behind_the_last_colon() {
        for text in ["1", "db:1", "other:1", "a:b:1"] {
            assert_eq!(parsed(&["-r", text]).unwrap().relation, Some(1));
        }
        assert_eq!(wrong(&["-r99"]), "invalid value \"99\" for option -r: relation not found");
        assert_eq!(
            wrong(&["--relation", "db:"]),
            "invalid value \"db:\" for option --relation: invalid relation id"
        );
    }

    #[test]
    fn help_is_met_in_order() {
        assert_eq!(parsed(&["x", "-ah"]), Err(Stopped::Help));
        assert_eq!(parsed(&["-f", "--help"]).unwrap().text("file"), Some("--help"));
        assert!(matches!(parsed(&["--foo", "--help"]), Err(Stopped::Wrong(_))));
    }
}
