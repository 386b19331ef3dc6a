//! Logs the failure of a batch of the janitor, so that the sweep continues.

use crate::store::unavailable::is_damage;
use api::error::ApiError;
use std::fmt::Display;

/// Logs a failed batch and returns none, so that the sweep continues; the next sweep repeats the batch. `task` and
/// `id` complete the log line "cannot TASK ID". Returns the error if the store accepts no writes at the moment.
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
