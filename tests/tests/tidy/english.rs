//! Tests assert on types: no test outside `tests/tests/golden` compares our own English.
//!
//! The rule finds string literals of three or more words in the compared values of an assertion macro, and in the
//! arguments of `contains`, `starts_with`, `ends_with`, `strip_prefix` and `strip_suffix`, in test code. A literal to which
//! `let`, `const` or `static` gives a name is found where the name is compared in the same file. The message of an assertion is not compared and may be a sentence. Two words are mostly
//! data of a test; the text of an entity (`unit web/0`) is found where it is made. [`EXCEPTIONS`] lists the allowed literals, each with its reason: mostly fixed texts of Juju,
//! on which charms and clients rely.

use super::source::{Source, Token, sources, tokens, tokens_and_strings};

/// The file or folder, how the literal begins, and why a test may compare it.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "hooks-tools/commands/src/",
        "",
        "texts of Juju's hook tools, and of Go's flags and YAML in them: charms read them (spec/hook-tools.md)",
    ),
    ("state/src/terms/port_range.rs", "", "texts of Juju's open-port: charms read them (spec/hook-tools.md)"),
    (
        "agent/tests/",
        "ERROR bad request: ",
        "how Juju's tool client reports a failed call (spec/hook-tools.md)",
    ),
    (
        "agent/tests/",
        "ERROR cannot write relation settings",
        "Juju's text for relation-set (spec/hook-tools.md)",
    ),
    ("tests/tests/system.rs", "ERROR bad request: ", "how Juju's tool client reports a failed call"),
    ("tests/tests/system.rs", "ERROR JUJU_CONTEXT_ID not set", "Juju's text (spec/hook-tools.md)"),
    (
        "cli/tests/commands.rs",
        "id \\\"7\\\" with return code 3",
        "Juju's text of a failed task, which jubilant reads",
    ),
    (
        "agent/tests/",
        "ERROR cannot write leadership settings",
        "Juju's text for leader-set (spec/hook-tools.md)",
    ),
    (
        "agent/tests/",
        "ERROR could not download resource",
        "Juju's text for resource-get (spec/hook-tools.md)",
    ),
    ("host/src/log_tail.rs", "", "lines of tracing, Rust and the loader, which the function looks for"),
    ("cli/tests/status.rs", "", "the layout of Juju's status"),
    ("cli/tests/tasks.rs", "", "the layout of Juju's table of operations"),
    ("tests/mutants/src/schemata.rs", "", "generated code"),
    (
        "tests/src/host.rs",
        "does not answer",
        "the error after which a test that kills the controller repeats a command",
    ),
    ("tests/src/cases/", "", "commands of the language of the cases, not assertions"),
];

/// The macros that compare, and how many of their arguments are compared values.
const MACROS: &[(&str, usize)] = &[
    ("assert", 1),
    ("assert_eq", 2),
    ("assert_ne", 2),
    ("debug_assert", 1),
    ("ensure", 1),
    ("matches", 2),
    ("prop_assert", 1),
    ("prop_assert_eq", 2),
];

/// The tokens of code that makes the text of a `state::terms::cause::Entity`, whose kind is an English word.
const ENTITY_TEXTS: [&[&str]; 2] = [&["entity", ".", "to_string"], &["Entity", ":", ":", "to_string"]];

/// The methods that compare a part of a text.
const METHODS: &[&str] = &["contains", "starts_with", "ends_with", "strip_prefix", "strip_suffix"];

/// Whether a literal is English: three words, or more.
fn is_english(literal: &str) -> bool {
    let is_word = |part: &&str| {
        // a placeholder is data
        let part = part.trim_matches(|c: char| c.is_ascii_punctuation() && c != '{');
        part.len() > 1 && part.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    };
    // an escaped line break separates words
    let literal = literal.replace("\\n", " ").replace("\\t", " ");
    literal.split_whitespace().filter(is_word).count() >= 3
}

/// The test code of a source: the whole file in a folder of tests, else what follows `#[cfg(test)]`.
fn test_code(source: &Source) -> &str {
    let path = &source.path;
    let is_test = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs");
    match source.text.find("#[cfg(test)]") {
        _ if path.starts_with("tests/tests/golden/") => "",
        _ if is_test => &source.text,
        Some(from) => &source.text[from..],
        None => "",
    }
}

/// How an open bracket classifies the literals in it.
enum Bracket {
    /// The first arguments, this many, are compared values.
    Compares(usize),
    /// The arguments of another function, which are its input.
    Input,
    /// The message of an `expect`.
    Message,
    /// The surrounding bracket determines it: an array, a tuple, `Some(...)`, `format!(...)`.
    Inherits,
}

impl Bracket {
    /// The kind of the bracket that follows these two tokens.
    fn after(before: &str, last: &str) -> Bracket {
        let is_name = last.chars().all(|c| c.is_alphanumeric() || c == '_');
        let of_macro = MACROS.iter().find(|(name, _)| before == *name && last == "!");
        match of_macro {
            Some((_, compared)) => Bracket::Compares(*compared),
            None if before == "." && METHODS.contains(&last) => Bracket::Compares(1),
            // a constructor, or no function at all
            None if !is_name || last.starts_with(char::is_uppercase) || last == "from" => Bracket::Inherits,
            None if last.starts_with("expect") => Bracket::Message,
            None => Bracket::Input,
        }
    }
}

/// The English literals that are compared, each with its line. A literal that is also an input in the same file is data
/// of the test and may be compared.
fn compared(text: &str) -> Vec<(usize, String)> {
    // the open brackets, each with the number of commas that were passed in it
    let mut open: Vec<(Bracket, usize)> = Vec::new();
    let mut found = Vec::new();
    let mut input = Vec::new();
    // the name that `let`, `const` or `static` is giving, and English literals by such names
    let mut binding: Option<String> = None;
    let mut named: Vec<(String, usize, String)> = Vec::new();
    let mut last = [String::new(), String::new(), String::new()];
    for token in tokens_and_strings(text) {
        let code = match token {
            Token::Text(literal, line) => {
                let deciding = open.iter().rev().find(|(bracket, _)| !matches!(bracket, Bracket::Inherits));
                let is_argument =
                    matches!(deciding, Some((Bracket::Compares(count), passed)) if passed < count);
                let is_operand = last[2] == "=" && ["=", "!"].contains(&last[1].as_str());
                match deciding {
                    _ if !is_english(&literal) => (),
                    _ if is_argument || is_operand => found.push((line, literal)),
                    _ if last[2] == "=" && binding.is_some() => {
                        named.extend(binding.take().map(|name| (name, line, literal)));
                    }
                    None | Some((Bracket::Input, _)) => input.push(literal),
                    Some(_) => (),
                }
                String::from("\"")
            }
            Token::Code(code) => {
                let deciding = open.iter().rev().find(|(bracket, _)| !matches!(bracket, Bracket::Inherits));
                if let Some((_, line, literal)) = named.iter().rev().find(|(name, ..)| *name == code)
                    && last[2] != "."
                {
                    match deciding {
                        Some((Bracket::Compares(count), passed)) if passed < count => {
                            found.push((*line, literal.clone()));
                        }
                        Some((Bracket::Input, _)) => input.push(literal.clone()),
                        _ => (),
                    }
                }
                match last[2].as_str() {
                    "let" | "const" | "static" if code != "mut" => binding = Some(code.clone()),
                    "mut" if last[1] == "let" => binding = Some(code.clone()),
                    _ if [";", "{"].contains(&code.as_str()) => binding = None,
                    _ => (),
                }
                match code.as_str() {
                    "(" => open.push((Bracket::after(&last[1], &last[2]), 0)),
                    "[" | "{" => open.push((Bracket::Inherits, 0)),
                    ")" | "]" | "}" => drop(open.pop()),
                    "," => open.last_mut().into_iter().for_each(|(_, passed)| *passed += 1),
                    _ => (),
                }
                code
            }
        };
        last = [std::mem::take(&mut last[1]), std::mem::take(&mut last[2]), code];
    }
    found.retain(|(_, literal)| !input.iter().any(|input: &String| input.contains(literal)));
    found
}

#[test]
fn tests_compare_no_english_of_our_own() {
    let mut violations = String::new();
    let mut used = vec![false; EXCEPTIONS.len()];
    for source in sources() {
        let code = test_code(&source);
        let before = source.text[..source.text.len() - code.len()].matches('\n').count();
        for (line, literal) in compared(code) {
            let fits = |(path, start, _): &&(&str, &str, &str)| {
                source.path.starts_with(path) && literal.starts_with(start)
            };
            match EXCEPTIONS.iter().position(|exception| fits(&exception)) {
                Some(at) => used[at] = true,
                None => violations += &format!("{}:{}: {literal}\n", source.path, before + line),
            }
        }
    }
    assert!(violations.is_empty(), "compare the type, the code or the exit status instead:\n{violations}");
    for ((path, start, _), used) in EXCEPTIONS.iter().zip(used) {
        assert!(used, "no test in {path} compares {start:?} any more: remove the exception");
    }
}

/// Whether the code makes the text of an entity.
fn makes_entity_text(code: &str) -> bool {
    let tokens = tokens(code);
    ENTITY_TEXTS.iter().any(|text| tokens.windows(text.len()).any(|window| window == *text))
}

#[test]
fn tests_compare_entities_and_not_their_texts() {
    let sources = sources();
    let is_found = |source: &&Source| makes_entity_text(test_code(source));
    let found: Vec<&str> = sources.iter().filter(is_found).map(|source| source.path.as_str()).collect();
    assert!(found.is_empty(), "compare the `Entity` instead: {found:?}");
    assert!(makes_entity_text("assert_eq!(why.entity.to_string(), x)"));
    assert!(makes_entity_text("all.iter().map(Entity::to_string)"));
    assert!(!makes_entity_text("identity.to_string()"));
}

#[test]
fn compared_literals_are_found_and_messages_of_assertions_are_not() {
    let found = |text: &str| compared(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(found("assert_eq!(f(a, b), \"web is gone\");"), [1]);
    assert_eq!(found("\nassert_eq!(x,\n [\"it is\", \"the unit waits\"]);"), [3]);
    assert_eq!(found("assert!(text.contains(\"web is gone\"), \"a reason of a test\");"), [1]);
    assert_eq!(found("let is = text.starts_with(r#\"web is gone\"#);"), [1]);
    assert_eq!(found("assert!(matches!(x, Some(\"web is gone\")));"), [1]);
    assert_eq!(found("assert_eq!(a, b, \"{}\", why(\"the reason of a test\"));"), [0; 0]);
    assert_eq!(found("assert!(x.is_ok(), \"the reason of a test\");"), [0; 0]);
    assert_eq!(found("assert_eq!(f(\"the input of a test\").expect(\"it is there\"), Some(1));"), [0; 0]);
    assert_eq!(found("lines.find(|line| *line == \"web is gone\")"), [1]);
    assert_eq!(found("let text = \"web is gone\";\nassert_eq!(x, text);"), [1]);
    assert_eq!(found("let text = \"web is gone\";\nassert!(f(text).is_ok());"), [0; 0], "its input");
    assert_eq!(found("let text = \"web is gone\";\nassert_eq!(f(text), text);"), [0; 0], "data of the test");
    assert_eq!(found("f(\"web is gone\"); assert_eq!(x, \"web is gone\");"), [0; 0], "data of the test");
    assert_eq!(found("f(\"web is gone\"); // assert_eq!(x, \"web is gone\")"), [0; 0]);
    assert_eq!(found("assert_eq!(x, \"web/0 logging/0 db/0\");"), [0; 0], "names are no words");
}
