//! The list of exceptions beside this file, for a rule of `cargo tidy`.
//!
//! A rule fails on a violation that is not listed, and on a listed exception that no longer exists, so that the
//! list only shrinks. `UPDATE=1 cargo tidy` removes lines that are no longer needed; a line is added by hand, with its
//! reason.

use super::source::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Exceptions by name, each with its remark.
pub type Exceptions = BTreeMap<String, String>;

fn file(list: &str) -> PathBuf {
    root().join("tests/tests/tidy").join(list)
}

/// A list: `NAME: REMARK` on each line that is not a comment.
pub fn read(list: &str) -> Exceptions {
    let text = fs::read_to_string(file(list)).expect("the list exists");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (name, remark) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        (name.to_owned(), remark.to_owned())
    };
    lines.map(entry).collect()
}

/// Whether the list is to be rewritten.
pub fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|value| value == "1")
}

/// Replaces the entries of a list and keeps its head.
pub fn rewrite(list: &str, entries: &Exceptions) {
    let text = fs::read_to_string(file(list)).expect("the list exists");
    let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    let lines = entries.iter().map(|(name, remark)| match remark.is_empty() {
        true => name.clone(),
        false => format!("{name}: {remark}"),
    });
    let all: Vec<String> = head.iter().map(|line| (*line).to_owned()).chain(lines).collect();
    fs::write(file(list), format!("{}\n", all.join("\n"))).expect("the list is writable");
}
