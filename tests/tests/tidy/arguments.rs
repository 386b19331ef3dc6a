//! No function of the product takes an anonymous tuple apart in its arguments: a tuple hides how many values a function
//! needs, and does not name them. What belongs together is a type with named fields.

use super::source::{files, root, tokens};
use super::syntax::{closing, is_word};
use std::fs;

/// The names of the functions of a source with a tuple pattern among their arguments.
fn functions_with_tuples(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let text = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| text(*at) == "fn" && is_word(text(at + 1))) {
        let mut open = at + 2;
        // generic parameters; `->` in a bound closes none
        let mut depth = 0;
        while depth > 0 || text(open) == "<" {
            match text(open) {
                "<" => depth += 1,
                ">" if text(open - 1) != "-" => depth -= 1,
                "" => break,
                _ => {}
            }
            open += 1;
        }
        if text(open) != "(" {
            continue;
        }
        let arguments = &tokens[open + 1..closing(&tokens, open) - 1];
        if has_tuple(arguments) {
            found.push(text(at + 1).to_owned());
        }
    }
    found
}

/// Whether one of these arguments begins with a tuple.
fn has_tuple(arguments: &[String]) -> bool {
    let (mut depth, mut is_start, mut previous) = (0, true, "");
    for token in arguments {
        match token.as_str() {
            "(" if depth == 0 && is_start => return true,
            "(" | "[" | "{" | "<" => depth += 1,
            ">" if previous == "-" => {}
            ")" | "]" | "}" | ">" => depth -= 1,
            _ => {}
        }
        is_start = depth == 0 && (token == "," || is_start && token == "&");
        previous = token;
    }
    false
}

#[test]
fn no_function_takes_a_tuple_apart_in_its_arguments() {
    let members = [
        "state",
        "host",
        "charms",
        "hooks-tools/client",
        "hooks-tools/commands",
        "api",
        "agent",
        "controller",
        "cli",
    ];
    for member in members {
        let source = root().join(member).join("src");
        let tests = root().join("state/src/tests");
        for path in files(&source).iter().filter(|path| !path.starts_with(&tests)) {
            let text = fs::read_to_string(path).expect("sources are text");
            let found =
                functions_with_tuples(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
            assert!(found.is_empty(), "{}: {found:?}; name the values in a type", path.display());
        }
    }
}

#[test]
fn a_tuple_in_the_arguments_is_found() {
    let text = "fn a((x, y): (u8, u8)) {} fn b<T: Fn(u8) -> u8>(x: (u8, u8), &(z, _): &(u8, u8)) {} \
                fn c(x: BTreeMap<u8, (u8, u8)>, f: impl Fn((u8, u8)) -> u8, y: u8) {} fn d(Pair { a, b }: Pair) {}";
    assert_eq!(functions_with_tuples(text), ["a", "b"]);
}
