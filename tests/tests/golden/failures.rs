//! The text of each reason why an operation has failed.

use api::text::refusal::failure;
use state::terms::failure_reason::FailureReason;
use state::terms::names::UnitName;
use state::terms::operation::{Hook, Operation};
use state::terms::refusal::write::WriteRefusal;
use test_support::golden::compare;

/// Returns the name of a reason in the golden file. A new reason must be named here to compile.
fn name(reason: &FailureReason) -> &'static str {
    match reason {
        FailureReason::Exit { .. } => "Exit",
        FailureReason::Signal { .. } => "Signal",
        FailureReason::ActionMissing { .. } => "ActionMissing",
        FailureReason::CharmMissing => "CharmMissing",
        FailureReason::NotExecutable { .. } => "NotExecutable",
        FailureReason::IsDirectory { .. } => "IsDirectory",
        FailureReason::Interrupted => "Interrupted",
        FailureReason::InterruptedAgain { .. } => "InterruptedAgain",
        FailureReason::StateLost => "StateLost",
        FailureReason::ControllerRestored => "ControllerRestored",
        FailureReason::RelationNotShown => "RelationNotShown",
        FailureReason::Text(_) => "Text",
        FailureReason::Refused { .. } => "Refused",
        FailureReason::OfOperation { .. } => "OfOperation",
    }
}

#[test]
fn each_reason_of_a_failure_renders_as_in_the_golden_file() {
    let last_line = || Some("No space left".to_owned());
    let file = || "hooks/start".to_owned();
    let all = [
        FailureReason::exit(1),
        FailureReason::Exit { code: 1, last_line: last_line() },
        FailureReason::signal(9),
        FailureReason::Signal { signal: 9, last_line: last_line() },
        FailureReason::ActionMissing { unit: UnitName::new("web", 0) },
        FailureReason::CharmMissing,
        FailureReason::NotExecutable { file: file() },
        FailureReason::IsDirectory { file: file() },
        FailureReason::Interrupted,
        FailureReason::InterruptedAgain { count: 3 },
        FailureReason::StateLost,
        FailureReason::ControllerRestored,
        FailureReason::RelationNotShown,
        FailureReason::Text("cannot start the hook: no memory".to_owned()),
        FailureReason::refused(WriteRefusal::LeaderOnly.into()),
        FailureReason::exit(1).of_operation(&Operation::Hook(Hook::Install)),
    ];
    let rendered = |reason: &FailureReason| format!("# {}\n{}\n", name(reason), failure(reason));
    let texts: Vec<String> = all.iter().map(rendered).collect();
    compare("failures.txt", &texts.join("\n"));
}
