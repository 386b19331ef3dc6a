//! The next page of documents of a batch of the janitor, and the log of a batch that fails, so that the sweep
//! continues.

use crate::store::unavailable::is_damage;
use api::error::ApiError;
use state::documents::draft::{Reader, StoredDocument};
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

/// Reads the next `limit` documents below a prefix and advances `after`. After the last page, `after` is empty and the
/// next call starts again.
pub(super) fn next_page(
    reader: &dyn Reader,
    prefix: &str,
    after: &mut String,
    limit: usize,
) -> Vec<StoredDocument> {
    let page = reader.scan(prefix, after, limit);
    *after = page.last().filter(|_| page.len() == limit).map_or(String::new(), |last| last.key.clone());
    page
}
