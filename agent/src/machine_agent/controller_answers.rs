//! What an error of the controller means for the plan of the machine agent.

use api::error::ApiError;
use state::machine::plan::shows_unfinished_agent;

/// Whether the controller was unreachable, or requests a later attempt.
pub(super) fn is_temporary(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(ApiError::is_transient)
}

/// Whether the controller refused to remove a unit because its agent has to run the last hooks.
pub(super) fn is_unfinished(error: &anyhow::Error) -> bool {
    let reason = error.downcast_ref::<ApiError>().and_then(|error| error.reason.as_deref());
    reason.is_some_and(shows_unfinished_agent)
}
