//! The English of failed actions. Called by the commands that show tasks.

use crate::text::refusal;
use state::documents::prelude::{ActionDoc, ActionFailure};

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
