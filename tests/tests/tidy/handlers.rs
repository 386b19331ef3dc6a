//! Checks that the controller, outside of its store, does not decide about the model.
//!
//! A source fails the check if it reads or writes a document through a draft (except `bytes_written`, the size of the log
//! lines of a transition), constructs a refusal of a transition, or uses a name of [`DECIDING_NAMES`]. Refusals for
//! authorisation, for the size of a transaction and for a name that does not exist are the controller's own and are
//! allowed.

use super::source::{files, root, tokens};
use std::fs;

/// Names of `state` whose use in the controller was a decision that is a function of `state` now.
const DECIDING_NAMES: &[&str] = &[
    // the options of removals: transitions/requested_removal.rs
    "destroy_with_unit",
    "destroy_with_application",
    "keep_instance",
    // which entities a timer of a forced removal concerns: transitions/force_timer.rs
    "ForcedEntityKind",
    "forced_removal",
    // what the provisioner is shown: views/desired_machines.rs
    "needs_unit_agent",
    // what a content may be: lifecycle/secret_content.rs
    "is_content_key",
    "CONTENT_BYTES_MAX",
    "VALUES_BYTES_MAX",
    "SEALED_BYTES_MAX",
    // settings in effect: status/application_config.rs, status/model_config.rs
    "application_config",
    "SettingSource",
];

/// Files of the controller, with the names that they may use.
const EXCEPTIONS: &[(&str, &[&str])] = &[
    // `api` and the function of `state` have the name of what they return
    ("handlers/applications.rs", &["application_config"]),
    // the option of a request is passed on
    ("handlers/machines.rs", &["keep_instance"]),
];

/// The lines of a source that use a method of a draft.
fn uses_of_drafts(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let uses = lines.filter(|(_, line)| {
        let mut calls = line.split("draft.").skip(1);
        calls.any(|call| !call.starts_with("bytes_written("))
    });
    uses.map(|(n, _)| n + 1).collect()
}

/// What a source makes or names that decides: the constructors of refusals, except for what was not found by its name,
/// and [`DECIDING_NAMES`].
fn decisions(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let text = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_path = text(at + 1) == ":" && text(at + 2) == ":";
        let is_refusal = text(at).ends_with("Refusal") && is_path && text(at + 3) != "not_found";
        if is_refusal || DECIDING_NAMES.contains(&text(at)) {
            found.push(match is_refusal {
                true => format!("{}::{}", text(at), text(at + 3)),
                false => text(at).to_owned(),
            });
        }
    }
    found
}

/// The sources of the controller outside of its store, without their tests: the path below `src`, and the text.
fn sources_of_the_controller() -> Vec<(String, String)> {
    let source = root().join("controller/src");
    let others = files(&source).into_iter().filter(|path| !path.starts_with(source.join("store")));
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("sources are text");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        let name = path.strip_prefix(&source).expect("below the folder").to_string_lossy().into_owned();
        (name, text)
    };
    others.map(read).collect()
}

#[test]
fn the_controller_only_calls_transitions() {
    for (path, text) in sources_of_the_controller() {
        let found = uses_of_drafts(&text);
        assert!(found.is_empty(), "{path}: lines {found:?} decide; make it a transition of state");
    }
}

#[test]
fn the_controller_constructs_no_refusal_and_uses_no_deciding_name() {
    for (path, text) in sources_of_the_controller() {
        let allowed = EXCEPTIONS.iter().find(|(name, _)| *name == path).map_or(&[][..], |(_, names)| *names);
        let mut found = decisions(&text);
        found.retain(|name| !allowed.contains(&name.as_str()));
        assert!(found.is_empty(), "{path}: {found:?}; make it a transition or a view of state");
    }
}

#[test]
fn a_read_and_a_write_of_a_draft_are_found() {
    let text = "run(move |draft| {\n    if draft.get(&key).is_some() {\n        // draft.put\n        draft.put(&key, &1);";
    assert_eq!(uses_of_drafts(text), [2, 4]);
    assert_eq!(uses_of_drafts("draft.bytes_written(&key)"), [0; 0]);
}

#[test]
fn refusals_and_deciding_names_are_found() {
    let text = "use state::x::{Refusal, UnitRefusal}; if count != 1 { return Err(UnitRefusal::Dead.into()); } \
                Refusal::new(a); found.ok_or_else(|| Refusal::not_found(b)); storage::destroy_with_unit(draft);";
    assert_eq!(decisions(text), ["UnitRefusal::Dead", "Refusal::new", "destroy_with_unit"]);
}
