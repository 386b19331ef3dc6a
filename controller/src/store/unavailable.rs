//! Ends a request for which the store cannot be read (design 15).
//!
//! A view of the store has no error result: it is a pure function of documents. When an engine cannot begin the read,
//! because the process or the host has no file descriptor left or etcd does not answer, or when the view has read a
//! damaged document, only the request must end, not the process. The engine then calls `retry` or `damaged`, which end the innermost [`catch`]
//! around them: the future of the request is dropped at this await, as if its client had disconnected. Outside of a
//! request, such as in the janitor, `retry` waits, and the engine tries again: a disk may recover.

use super::Store;
use super::outage::Outage;
use api::error::{ApiError, ErrorCode};
use state::documents::prelude::KeyParts;
use state::terms::cause::{Actor, Cause, Duty, Entity};
use std::cell::RefCell;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

/// The pause between two attempts outside of a request: descriptors become free when connections are closed, and a disk
/// recovers.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

tokio::task_local! {
    static READS: Reads;
}

/// The reads of one request, or of one stream.
struct Reads {
    /// Why the store cannot be read.
    failure: RefCell<Option<Unavailable>>,
    /// Whether a read that cannot begin waits, as in a stream, instead of ending the request.
    waits: bool,
}

/// The store cannot be read at the moment. Nothing was read or changed by the read that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A file cannot be opened.
    #[error("cannot open a file of the store: {0}")]
    CannotOpen(String),
    /// The read needs damaged documents: their names.
    #[error("{}", damaged_text(.0))]
    Damaged(Vec<String>),
    /// The store is on other hosts and cannot be used.
    #[error("cannot use the store: {0}")]
    Outage(Outage),
}

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> ApiError {
        match &error {
            Unavailable::CannotOpen(_) => ApiError::new(ErrorCode::Unavailable, error.to_string())
                .hint("try again; if it persists, raise the limit of open files of the controller"),
            Unavailable::Damaged(documents) => damage_error(documents),
            Unavailable::Outage(outage) => {
                ApiError::new(ErrorCode::Unavailable, error.to_string()).hint(outage.hint())
            }
        }
    }
}

/// The most damaged documents that one message names.
const NAMES_MAX: usize = 3;

/// Returns the message for a request that needs these damaged documents.
pub(super) fn damaged_text(documents: &[String]) -> String {
    let names = documents.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if documents.len() > NAMES_MAX { ", ..." } else { "" };
    format!("cannot read from the store: damaged on disk: {names}{more}")
}

/// Returns the error of a request that needs these damaged documents. Its blockers name them.
pub fn damage_error(documents: &[String]) -> ApiError {
    let cause = |document: &String| {
        let model = KeyParts::of(document).map_or(document.as_str(), |parts| parts.model);
        restore_cause(Entity::Model(model.to_owned()), document)
    };
    let blockers = documents.iter().take(NAMES_MAX).map(cause).collect();
    let error = ApiError::new(ErrorCode::Unavailable, damaged_text(documents))
        .hint("list the damage with: pintle-controller check DIR; then restore the store from a backup");
    ApiError { blockers, ..error }
}

/// Returns the cause for an entity that depends on a damaged document.
pub fn restore_cause(entity: Entity, document: &str) -> Cause {
    Cause::new(entity, Duty::RestoreDocument { document: document.to_owned() }, Actor::Operator)
}

/// Returns the cause for an entity whose agents cannot report, because the store accepts no changes.
pub fn write_failure_cause(store: &impl Store, entity: Entity) -> Option<Cause> {
    store.write_failure().map(|failure| Cause::new(entity, Duty::AcceptChanges(failure), Actor::Operator))
}

/// Whether a request failed because a document that it needs is damaged. Requests that do not need it succeed.
pub fn is_damage(error: &ApiError) -> bool {
    error.blockers.iter().any(|blocker| matches!(blocker.duty, Duty::RestoreDocument { .. }))
}

/// Returns the output of `request`, or why the store could not be read for it.
pub fn catch<T>(request: impl Future<Output = T>) -> impl Future<Output = Result<T, Unavailable>> {
    scope(request, false)
}

/// Returns the next item of a stream, or the damaged documents that it needs. If the store cannot open a file, the
/// stream waits.
pub fn catch_in_stream<T>(next: impl Future<Output = T>) -> impl Future<Output = Result<T, Unavailable>> {
    scope(next, true)
}

fn scope<T>(request: impl Future<Output = T>, waits: bool) -> impl Future<Output = Result<T, Unavailable>> {
    // Once, on the heap: each future around it would have a copy of its own, and thousands of streams wait.
    let mut request = Box::pin(request);
    let request = std::future::poll_fn(move |context| match request.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => match READS.with(|reads| reads.failure.take()) {
            Some(failure) => Poll::Ready(Err(failure)),
            None => Poll::Pending,
        },
    });
    READS.scope(Reads { failure: RefCell::new(None), waits }, request)
}

/// Ends the request of the caller, because it read damaged documents. Outside of a request, the caller waits for ever,
/// because it must not act on an absence; such callers use `read_available` instead.
pub(super) async fn damaged<T>(documents: Vec<String>) -> T {
    let failure = Unavailable::Damaged(documents);
    if READS.try_with(|reads| drop(reads.failure.replace(Some(failure.clone())))).is_err() {
        tracing::error!("{failure}; what needs it waits");
    }
    std::future::pending().await
}

/// Ends the request of the caller, because a read could not begin. Outside of a request, and in a stream that waits for
/// a file to be opened, returns when the read may be tried again.
pub(super) async fn retry(failure: Unavailable) {
    let is_damage = matches!(failure, Unavailable::Damaged(_));
    let ends = READS.try_with(|reads| {
        let ends = !reads.waits || is_damage;
        if ends {
            reads.failure.replace(Some(failure.clone()));
        }
        ends
    });
    if ends.unwrap_or(false) {
        std::future::pending::<()>().await;
    }
    if let Unavailable::CannotOpen(_) = failure {
        tracing::warn!("{failure}; trying again"); // the engine logs damage and outages, once
    }
    tokio::time::sleep(RETRY_INTERVAL).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_ends_at_a_read_that_cannot_begin_and_others_do_not() {
        let failure = Unavailable::CannotOpen("too many open files".to_owned());
        let failed = catch(async { retry(failure.clone()).await }).await;
        assert_eq!(failed, Err(failure.clone()));
        let damage = catch(async { damaged::<()>(vec!["m/unit/a".to_owned()]).await }).await;
        let error = ApiError::from(damage.expect_err("it is damaged"));
        assert!(error.message.contains("m/unit/a") && is_damage(&error), "{error:?}");
        assert_eq!(catch(async { tokio::task::yield_now().await }).await, Ok(()));
        retry(failure).await; // it returns, because there is no request
    }
}
