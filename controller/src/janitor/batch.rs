//! What the janitor does when a batch fails.

use crate::store::unavailable::is_damage;
use api::error::ApiError;
use std::fmt::Display;

/// Logs a failed batch and returns none, so that the sweep continues; the next sweep repeats the batch. `task` and
/// `id` complete the sentence "cannot ..". Returns the error if the store accepts no writes at the moment.
pub(super) fn log_and_skip<T>(
    task: &str,
    id: impl Display,
    done: Result<T, ApiError>,
) -> Result<Option<T>, ApiError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_transient() && !is_damage(&error) => Err(error),
        Err(error) => {
            tracing::warn!("cannot {task} {id}: {error}");
            Ok(None)
        }
    }
}
