//! Receives the bodies of requests within a budget of memory.
//!
//! A body that is larger than 64 KiB takes its size from the budget of its caller before it is read, and keeps it until
//! the request is answered. It must then arrive at the minimum rate, so that a caller who sends nothing does not keep
//! the budget from others. No byte is read before the caller is authorised. Called by `server`.

use super::budget::{Budget, Permit, Share, Shares};
use super::minimum_rate::Transfer;
use api::Commit;
use api::error::{ApiError, ErrorCode};
use api::request::{Entry, Method, Request};
use axum::body::{Body, Bytes};
use hyper::body::Body as _;
use state::documents::prelude::TokenHolder;

/// The most bytes of a request body.
const BODY_BYTES_MAX: usize = 4 << 20;
/// The most bytes of a record. It has at most 8 MiB of writes and 240 KiB of reports (design 5), as JSON; one of a resync
/// has the unit's data instead of writes: 5 MiB with the settings, and a replica of 1.25 MiB.
const RECORD_BYTES_MAX: usize = 10 << 20;
/// A body up to this size does not count: 16 MiB for the 256 connections of a user.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// Bytes of larger bodies of one machine agent: one of the largest.
const BODIES_OF_MACHINE_MAX: u32 = 4 << 20;
/// Bytes of larger bodies of one unit agent: one of the largest. An agent sends its records one after the other.
const BODIES_OF_UNIT_MAX: u32 = 10 << 20;
/// Bytes of larger bodies of one user: four of the largest.
const BODIES_OF_USER_MAX: u32 = 16 << 20;
/// Bytes of larger bodies of all unit agents: those of nine with the largest records, and of 22 with other requests.
const BODIES_OF_UNITS_MAX: u32 = 90 << 20;
/// Bytes of larger bodies of all machine agents: those of 8. With those of users all callers have 154 MiB.
const BODIES_OF_MACHINES_MAX: u32 = 32 << 20;
/// Bytes of larger bodies of all users: those of two.
const BODIES_OF_USERS_MAX: u32 = 32 << 20;

/// Returns the budget of bodies, all of it unused.
pub fn budget() -> Budget {
    Budget::new(Shares {
        users: Share { each: BODIES_OF_USER_MAX, all: BODIES_OF_USERS_MAX },
        machines: Share { each: BODIES_OF_MACHINE_MAX, all: BODIES_OF_MACHINES_MAX },
        units: Share { each: BODIES_OF_UNIT_MAX, all: BODIES_OF_UNITS_MAX },
    })
}

/// Receives the body of a request. It counts against the budget until the permit is dropped.
///
/// # Errors
/// If the body is too large, incomplete or too slow, or if other bodies use up the budget.
pub async fn receive(
    entry: &Entry,
    caller: &TokenHolder,
    budget: &Budget,
    body: Body,
) -> Result<(Bytes, Option<Permit>), ApiError> {
    let bytes_max = match entry.route.method {
        Method::Get => 0,
        Method::Post if entry.route == <Commit as Request>::ROUTE => RECORD_BYTES_MAX,
        Method::Post => BODY_BYTES_MAX,
    };
    let too_large = || {
        let text = format!("cannot receive the body of the request: it is larger than {bytes_max} bytes");
        ApiError::new(ErrorCode::Invalid, text)
    };
    // A body in chunks declares no size.
    let declared = body.size_hint().exact().unwrap_or(bytes_max as u64);
    let bytes = usize::try_from(declared).ok().filter(|bytes| *bytes <= bytes_max).ok_or_else(too_large)?;
    let permit = match declared > SMALL_BYTES_MAX {
        true => {
            let refusal =
                "cannot receive the body of the request: too many large requests are being received";
            Some(budget.acquire_in_time(caller, bytes, refusal).await?)
        }
        false => None,
    };
    let (mut received, mut body, mut transfer) =
        (Vec::with_capacity(bytes), body.into_data_stream(), Transfer::default());
    while let Some(data) = transfer.receive(&mut body).await? {
        if received.len() + data.len() > bytes_max {
            return Err(too_large());
        }
        received.extend_from_slice(&data);
    }
    Ok((received.into(), permit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::budget::WAIT_MAX;
    use crate::server::minimum_rate::LATE_MAX;
    use api::AddUnits;
    use api::all_requests;
    use hyper::body::{Frame, SizeHint};
    use state::documents::prelude::{GLOBAL, UserRole};
    use state::terms::names::Uuid;
    use std::convert::Infallible;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use tokio::time::Instant;

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

    fn with_a_body() -> Entry {
        all_requests::all()
            .into_iter()
            .find(|entry| entry.route == <AddUnits as api::Request>::ROUTE)
            .expect("a request with a body")
    }

    fn unit(n: u128) -> TokenHolder {
        TokenHolder::Unit { model: GLOBAL, unit: Uuid(n) }
    }

    fn stalled() -> Body {
        Body::new(Stalled(BODY_BYTES_MAX as u64))
    }

    fn is_transient<T>(result: Result<T, ApiError>) -> bool {
        result.is_err_and(|error| error.is_transient())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_ended_after_the_tolerance_of_the_minimum_rate() {
        let (budget, started) = (budget(), Instant::now());
        let received = receive(&with_a_body(), &unit(1), &budget, stalled()).await;
        assert!(is_transient(received));
        assert_eq!(started.elapsed(), LATE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_bodies_of_eight_agents_delay_no_one_else() {
        let (budget, entry) = (budget(), with_a_body());
        let units: Vec<_> = (0..32).map(|n| unit(n % 8)).collect();
        let mut bodies: Vec<_> =
            units.iter().map(|unit| Box::pin(receive(&entry, unit, &budget, stalled()))).collect();
        for body in &mut bodies {
            assert!(body.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let started = Instant::now();
        let large = Body::from(vec![b' '; BODY_BYTES_MAX]);
        assert!(receive(&entry, &unit(9), &budget, large).await.is_ok());
        assert_eq!(started.elapsed().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_budget_is_bounded_and_does_not_count_as_the_time_of_the_body() {
        let (budget, entry, unit) = (budget(), with_a_body(), unit(1));
        let permit = budget.try_acquire(&unit, RECORD_BYTES_MAX).expect("it is unused");
        let started = Instant::now();
        assert!(is_transient(receive(&entry, &unit, &budget, stalled()).await));
        assert_eq!(started.elapsed(), WAIT_MAX);

        let (started, wait) = (Instant::now(), WAIT_MAX / 2);
        let release = async {
            tokio::time::sleep(wait).await;
            drop(permit);
        };
        let (received, ()) = tokio::join!(receive(&entry, &unit, &budget, stalled()), release);
        assert!(is_transient(received));
        assert_eq!(started.elapsed(), wait + LATE_MAX);
    }

    #[tokio::test]
    async fn large_bodies_of_one_caller_wait_for_each_other_and_for_no_one_else() {
        let share = Share { each: 200_000, all: 1_000_000 };
        let budget = Budget::new(Shares { users: share, machines: share, units: share });
        let user = |name: &str| TokenHolder::User { name: name.to_owned(), role: UserRole::Write };
        let (ann, ben) = (user("ann"), user("ben"));
        let entry = with_a_body();
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
