//! Answers a request for which the store could not open a file (design 15).
//!
//! A view of the store cannot fail: it is a pure function of documents. When an engine cannot begin the read, because
//! the process or the host has no file descriptor left, the request must end instead of its process. The engine then
//! calls [`retry`], which ends the innermost [`answer`] around it: the future of the request is dropped at this await,
//! as if its client had gone. Outside of a request, such as in the janitor and in streams, it waits, and the engine
//! tries again.

use api::error::{ApiError, ErrorCode};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// The pause between two attempts outside of a request: descriptors become free when connections are closed.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// Why the store cannot be read for this request.
    static FAILURE: RefCell<Option<Unavailable>>;
}

/// The store cannot be read at the moment. Nothing was read or changed by the read that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot open a file of the store: {0}")]
pub struct Unavailable(pub String);

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> ApiError {
        ApiError::new(ErrorCode::Unavailable, error.to_string())
            .hint("try again; if it persists, raise the limit of open files of the controller")
    }
}

/// Returns the output of `request`, or why the store could not be read for it.
pub async fn answer<T>(request: impl Future<Output = T>) -> Result<T, Unavailable> {
    let mut scoped = pin!(FAILURE.scope(RefCell::new(None), async {
        let mut request = pin!(request);
        std::future::poll_fn(|context| match request.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => match FAILURE.with(RefCell::take) {
                Some(failure) => Poll::Ready(Err(failure)),
                None => Poll::Pending,
            },
        })
        .await
    }));
    scoped.as_mut().await
}

/// Ends the request of the caller, or waits until the read may be tried again.
pub(super) async fn retry(why: String) {
    let ends = FAILURE.try_with(|failure| drop(failure.replace(Some(Unavailable(why.clone()))))).is_ok();
    if ends {
        std::future::pending::<()>().await;
    }
    tracing::warn!(why, "cannot open a file of the store; trying again");
    tokio::time::sleep(RETRY_INTERVAL).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_ends_at_a_read_that_cannot_begin_and_others_do_not() {
        let failed = answer(async { retry("too many open files".to_owned()).await }).await;
        assert_eq!(failed, Err(Unavailable("too many open files".to_owned())));
        assert_eq!(answer(async { tokio::task::yield_now().await }).await, Ok(()));
        retry("too many open files".to_owned()).await; // returns: there is no request
    }
}
