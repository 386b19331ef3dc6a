//! The text of each failure of an action: the message, and the results in Juju's format.

use crate::compare;
use api::text::action::message;
use api::{ActionDoc, ActionFailure};
use cli::render::task::results;
use serde_json::json;
use state::terms::failure_reason::FailureReason;
use state::terms::names::{UnitName, Uuid};
use state::terms::process_result::{ProcessResult, StreamOutput};
use state::terms::refusal::write::WriteRefusal;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;

/// Returns the example after `failure`; none after the last. A new one must be named here to compile.
fn next_failure(failure: &ActionFailure) -> Option<ActionFailure> {
    Some(match failure {
        ActionFailure::ActionFail { .. } => ActionFailure::Process { reason: FailureReason::exit(1) },
        ActionFailure::Process { .. } => ActionFailure::NoProgram,
        ActionFailure::NoProgram => {
            ActionFailure::Refused { refusal: Box::new(WriteRefusal::LeaderOnly.into()) }
        }
        ActionFailure::Refused { .. } => ActionFailure::Lost,
        ActionFailure::Lost => ActionFailure::UnitRemoved,
        ActionFailure::UnitRemoved => return None,
    })
}

#[test]
fn each_failure_of_an_action_renders_as_in_the_golden_file() {
    let first = ActionFailure::ActionFail { message: "no disk".to_owned() };
    let text = |failure: ActionFailure| {
        let stderr = Some(StreamOutput::Text("printed\n".to_owned()));
        let action = ActionDoc {
            id: 3,
            operation: 3,
            unit: Uuid(1),
            machine: None,
            unit_name: UnitName::new("web", 0),
            name: "backup".to_owned(),
            params: BTreeMap::new(),
            status: ActionStatus::Failed,
            failure: Some(failure.clone()),
            results: BTreeMap::new(),
            process: Some(ProcessResult { exit_code: 1, stderr, stdout: None }),
            log: Vec::new(),
            enqueued_ms: 1,
            started_ms: None,
            completed_ms: Some(2),
        };
        let message = message(&action).expect("it has failed");
        format!("{failure:?}: {message}\n    {}\n", json!(results(&action)))
    };
    compare("actions.txt", &std::iter::successors(Some(first), next_failure).map(text).collect::<String>());
}
