//! Receives the bodies of requests within a budget of memory.
//!
//! A body that is larger than 64 KiB takes its size from the budget of its caller before it is read, and keeps it until
//! the request is answered. No byte is read before the caller is authorised. Called by `server`.

use super::budget::{Budget, Permit};
use api::error::{ApiError, ErrorCode};
use api::request::{Entry, Method};
use axum::body::{Body, Bytes, to_bytes};
use hyper::body::Body as _;
use state::documents::prelude::TokenHolder;
use std::time::Duration;

/// The most bytes of a request body. A record is at most 1 MiB of writes and 60 log lines (design 5), which JSON may
/// double.
const BODY_BYTES_MAX: usize = 4 << 20;
/// The time limit for receiving a body: 4 MiB at 70 KiB/s.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// A body up to this size does not count: 16 MiB for the 256 connections of a user.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// Bytes of larger bodies of one caller: four of the largest.
const BODIES_OF_CALLER_MAX: u32 = 16 << 20;
/// Bytes of larger bodies of all callers.
const BODIES_MAX: u32 = 128 << 20;

/// Returns the budget of bodies, all of it unused.
pub fn budget() -> Budget {
    Budget::new(BODIES_OF_CALLER_MAX, BODIES_MAX)
}

/// Receives the body of a request. It counts against the budget until the permit is dropped.
///
/// # Errors
/// If the body is too large or incomplete, or does not arrive in time.
pub async fn receive(
    entry: &Entry,
    caller: &TokenHolder,
    budget: &Budget,
    body: Body,
) -> Result<(Bytes, Option<Permit>), ApiError> {
    let bytes_max = match entry.route.method {
        Method::Get => 0,
        Method::Post => BODY_BYTES_MAX,
    };
    let incomplete = || {
        let text = format!("cannot read the request body: it is incomplete or larger than {bytes_max} bytes");
        ApiError::new(ErrorCode::Invalid, text)
    };
    // A body in chunks declares no size.
    let bytes = body.size_hint().exact().unwrap_or(bytes_max as u64);
    if bytes > bytes_max as u64 {
        return Err(incomplete());
    }
    let received = async {
        let permit = match bytes > SMALL_BYTES_MAX {
            true => Some(budget.acquire(caller, usize::try_from(bytes).unwrap_or(usize::MAX)).await),
            false => None,
        };
        to_bytes(body, bytes_max).await.map(|bytes| (bytes, permit))
    };
    match tokio::time::timeout(BODY_TIMEOUT, received).await {
        Ok(received) => received.map_err(|_| incomplete()),
        Err(_) => Err(ApiError::new(ErrorCode::Invalid, "cannot read the request body: timed out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::AddUnits;
    use api::all_requests;
    use hyper::body::{Frame, SizeHint};
    use state::documents::prelude::UserRole;
    use std::convert::Infallible;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    /// A body of which nothing arrives.
    struct Stalled(u64);

    impl hyper::body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test]
    async fn large_bodies_of_one_caller_wait_for_each_other_and_for_no_one_else() {
        let budget = Budget::new(200_000, 1_000_000);
        let user = |name: &str| TokenHolder::User { name: name.to_owned(), role: UserRole::Write };
        let (ann, ben) = (user("ann"), user("ben"));
        let entry = all_requests::all()
            .into_iter()
            .find(|entry| entry.route == <AddUnits as api::Request>::ROUTE)
            .expect("a request with a body");
        let large = || Body::from(vec![b' '; 150_000]);
        let mut stalled = Box::pin(receive(&entry, &ann, &budget, Body::new(Stalled(150_000))));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(stalled.as_mut().poll(context).is_pending());
        {
            let mut second = pin!(receive(&entry, &ann, &budget, large()));
            assert!(second.as_mut().poll(context).is_pending(), "150 of 200 KB are taken");
        }
        let small = receive(&entry, &ann, &budget, Body::from(vec![b' '; 60_000])).await;
        assert!(small.is_ok_and(|(bytes, permit)| bytes.len() == 60_000 && permit.is_none()));
        assert!(receive(&entry, &ben, &budget, large()).await.is_ok());
        drop(stalled);
        assert!(receive(&entry, &ann, &budget, large()).await.is_ok());
        let beyond = Body::new(Stalled(BODY_BYTES_MAX as u64 + 1));
        assert!(receive(&entry, &ann, &budget, beyond).await.is_err(), "nothing of it is awaited");
    }
}
