//! The controller decides nothing: outside of its store it reads and writes no document of a draft. What its handlers
//! and its janitor give to `run` calls the transitions of `state`, and how much a transition has written to the log is
//! the one thing that they ask of a draft.

use super::source::{files, root};
use std::fs;

/// The lines of a source that use a method of a draft.
fn uses_of_drafts(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let uses = lines.filter(|(_, line)| {
        let mut calls = line.split("draft.").skip(1);
        calls.any(|call| !call.starts_with("bytes_written("))
    });
    uses.map(|(n, _)| n + 1).collect()
}

#[test]
fn the_controller_only_calls_transitions() {
    let source = root().join("controller/src");
    for path in files(&source).iter().filter(|path| !path.starts_with(source.join("store"))) {
        let text = fs::read_to_string(path).expect("sources are text");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let found = uses_of_drafts(text);
        assert!(
            found.is_empty(),
            "{}: lines {found:?} decide; make it a transition of state",
            path.display()
        );
    }
}

#[test]
fn a_read_and_a_write_of_a_draft_are_found() {
    let text = "run(move |draft| {\n    if draft.get(&key).is_some() {\n        // draft.put\n        draft.put(&key, &1);";
    assert_eq!(uses_of_drafts(text), [2, 4]);
    assert_eq!(uses_of_drafts("draft.bytes_written(&key)"), [0; 0]);
}
