//! The English of ended actions: the message of a failed one, and its results as Juju shows them.
//!
//! Called by the commands that show tasks.

use crate::text::refusal;
use serde_json::Value;
use state::documents::prelude::{ActionDoc, ActionFailure};
use state::terms::process_result::{ProcessResult, StreamOutput};
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

/// The key of the exit code in [`results`].
pub const RETURN_CODE: &str = "return-code";

/// The results in Juju's form: what the charm set, and the exit code and the output of the process under fixed keys.
/// Juju shows a refusal of the writes as an error that the action printed.
pub fn results(action: &ActionDoc) -> BTreeMap<String, Value> {
    let ProcessResult { stdout, mut stderr, .. } = action.process.clone().unwrap_or_default();
    if let Some(ActionFailure::Refused { refusal }) = &action.failure {
        let error = format!("ERROR {}\n", refusal::message(refusal));
        stderr = match stderr {
            None => Some(StreamOutput::Text(error)),
            Some(StreamOutput::Text(printed)) => Some(StreamOutput::Text(printed + &error)),
            // what is added to base64 could not be decoded
            Some(StreamOutput::Base64(printed)) => Some(StreamOutput::Base64(printed)),
        };
    }
    let mut results = action.results.clone();
    let exit_code = action.process.as_ref().map(|process| process.exit_code);
    results.extend(exit_code.map(|code| (RETURN_CODE.to_owned(), code.into())));
    for (stream, printed) in [("stdout", stdout), ("stderr", stderr)] {
        let Some(printed) = printed else { continue };
        if let StreamOutput::Base64(_) = printed {
            results.insert(format!("{stream}-encoding"), "base64".into());
        }
        results.insert(stream.to_owned(), printed.stored_text().into());
    }
    results
}
