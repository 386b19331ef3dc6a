//! Limits how many TLS handshakes are processed per scheduling round, so that a flood of them does not delay the requests
//! on open connections.
//!
//! One thread serves all connections, and the server's part of a handshake keeps it for 1 to 3 ms. In one scheduling round,
//! in which each other task that is ready runs once, at most [`HANDSHAKES_MAX`] handshakes are processed, and at most
//! [`HANDSHAKES_PER_ADDRESS_MAX`] of one address. Handshakes that wait are processed in the order of their arrival, except
//! that those of an address at its limit do not delay other addresses. Used by `server`.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Handshakes of all addresses per scheduling round: 8 to 24 ms of the processor. At the limit of 256 unauthenticated
/// connections each one waits for 32 rounds at most.
const HANDSHAKES_MAX: usize = 8;
/// Handshakes of one address per scheduling round: half, so that another address need not wait.
const HANDSHAKES_PER_ADDRESS_MAX: usize = HANDSHAKES_MAX / 2;

/// The limiter of one server.
pub struct HandshakeLimiter {
    all: Arc<Semaphore>,
    /// By address: the permits of those whose handshakes have a permit or wait for one.
    by_address: Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>,
}

/// The permit to process one handshake, until it is dropped.
struct HandshakePermit {
    _address_permit: Option<OwnedSemaphorePermit>,
    _server_permit: Option<OwnedSemaphorePermit>,
}

impl HandshakeLimiter {
    /// Returns a limiter all of whose permits are free.
    pub fn new() -> Arc<HandshakeLimiter> {
        let all = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        Arc::new(HandshakeLimiter { all, by_address: Mutex::default() })
    }

    /// Waits for a permit of the address, then polls the handshake once, which does all of the server's part if the
    /// peer's first message was received. The permit is returned in the next scheduling round. Completes with the
    /// handshake.
    pub async fn run<T>(&self, address: IpAddr, handshake: impl Future<Output = T>) -> T {
        let permit = self.permit(address).await;
        let mut handshake = pin!(handshake);
        let first = poll_fn(|context| Poll::Ready(handshake.as_mut().poll(context))).await;
        tokio::task::yield_now().await;
        drop(permit);
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => handshake.await,
        }
    }

    async fn permit(&self, address: IpAddr) -> HandshakePermit {
        let of_address = {
            let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            by_address.retain(|_, permits| Arc::strong_count(permits) > 1);
            let permits = || Arc::new(Semaphore::new(HANDSHAKES_PER_ADDRESS_MAX));
            by_address.entry(address).or_insert_with(permits).clone()
        };
        // An error means that the semaphore is closed, which never happens.
        HandshakePermit {
            _address_permit: of_address.acquire_owned().await.ok(),
            _server_permit: self.all.clone().acquire_owned().await.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::task::{Context, Waker};

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
    const C: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 4));

    /// The addresses whose handshakes are done in each round, in which every waiting handshake is polled once.
    fn rounds(waiting: &[IpAddr]) -> Vec<Vec<IpAddr>> {
        let limiter = HandshakeLimiter::new();
        let done = Mutex::new(Vec::new());
        let one = |address| {
            let (limiter, done) = (&limiter, &done);
            Box::pin(limiter.run(address, async move { done.lock().expect("one thread").push(address) }))
        };
        let mut all: Vec<_> = waiting.iter().map(|address| one(*address)).collect();
        let mut rounds = Vec::new();
        // A task that has yielded, outside of a runtime, is ready again at once.
        while !all.is_empty() {
            all.retain_mut(|one| one.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending);
            rounds.push(std::mem::take(&mut *done.lock().expect("one thread")));
        }
        rounds
    }

    #[test]
    fn one_address_has_half_of_the_permits_and_others_do_not_wait_for_it() {
        let mut waiting = vec![A; 3 * HANDSHAKES_MAX];
        waiting.extend([B, C]);
        let rounds = rounds(&waiting);
        assert_eq!(rounds[0], [A, A, A, A, B, C], "a flood of A came first");
        assert_eq!(rounds.iter().flatten().count(), waiting.len(), "every handshake is processed");
    }

    #[test]
    fn few_handshakes_are_processed_per_scheduling_round() {
        let waiting: Vec<IpAddr> = (0..100).map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))).collect();
        for round in rounds(&waiting) {
            assert!(round.len() <= HANDSHAKES_MAX, "{round:?}");
        }
    }
}
