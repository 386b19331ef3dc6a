//! The English of ended actions: the message of a failed one, and its results as Juju shows them.
//!
//! Called by the commands that show tasks.

use crate::text::refusal;
use serde_json::Value;
use state::documents::prelude::{ActionDoc, ActionFailure};
use std::collections::BTreeMap;

/// Why the action has failed; none if it has not.
pub fn message(action: &ActionDoc) -> Option<String> {
    Some(match action.failure.as_ref()? {
        ActionFailure::ActionFail { message } => message.clone(),
        ActionFailure::Process { reason } => refusal::failure(reason),
        ActionFailure::NoProgram => format!("the charm has no program for action {:?}", action.name),
        ActionFailure::Refused { .. } => "committing requested changes failed".to_owned(), // Juju's text
        ActionFailure::Lost => {
            "lost: the controller was restored from a backup, and the unit has already recorded an \
                                action with this number or a later one; it is unknown whether this action ran"
                .to_owned()
        }
        ActionFailure::UnitRemoved => format!("unit {} was removed", action.unit_name),
    })
}

/// The results. Juju shows a refusal of the writes as an error that the action printed.
pub fn results(action: &ActionDoc) -> BTreeMap<String, Value> {
    let mut results = action.results.clone();
    if let Some(ActionFailure::Refused { refusal }) = &action.failure {
        let printed = results.get("stderr").and_then(Value::as_str).unwrap_or_default();
        let stderr = format!("{printed}ERROR {}\n", refusal::message(refusal));
        results.insert("stderr".to_owned(), stderr.into());
    }
    results
}
