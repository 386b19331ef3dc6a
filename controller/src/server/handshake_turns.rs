//! Turns of TLS handshakes, so that a flood of them does not delay the requests on open connections.
//!
//! One thread serves all connections, and the server's part of a handshake keeps it for 1 to 3 ms. At most
//! [`HANDSHAKES_MAX`] handshakes have that part done before the other tasks run again, and at most
//! [`OF_ADDRESS_MAX`] of one address. Handshakes that wait get their turns in the order of their arrival, except that
//! those of an address at its limit do not delay other addresses. Used by `server`.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Handshakes of all addresses between two turns of the other tasks: 8 to 24 ms of the processor. At the limit of 256
/// unauthenticated connections each one waits for 32 turns at most.
const HANDSHAKES_MAX: usize = 8;
/// Handshakes of one address between two turns of the other tasks: half, so that another address need not wait.
const OF_ADDRESS_MAX: usize = HANDSHAKES_MAX / 2;

/// The turns of one server.
pub struct HandshakeTurns {
    all: Arc<Semaphore>,
    /// By address: the turns of those whose handshakes have a turn or wait for one.
    of_addresses: Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
struct Turn {
    _of_address: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl HandshakeTurns {
    /// Returns the turns, none of them taken.
    pub fn new() -> Arc<HandshakeTurns> {
        let all = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        Arc::new(HandshakeTurns { all, of_addresses: Mutex::default() })
    }

    /// Waits for the turn of an address, then polls the handshake once, which does all of the server's part if the
    /// peer's first message was received. The turn ends when the other tasks have run.
    pub async fn take<T>(&self, address: IpAddr, handshake: impl Future<Output = T>) -> T {
        let turn = self.turn(address).await;
        let mut handshake = pin!(handshake);
        let first = poll_fn(|context| Poll::Ready(handshake.as_mut().poll(context))).await;
        tokio::task::yield_now().await;
        drop(turn);
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => handshake.await,
        }
    }

    async fn turn(&self, address: IpAddr) -> Turn {
        let of_address = {
            let mut of_addresses = self.of_addresses.lock().unwrap_or_else(PoisonError::into_inner);
            of_addresses.retain(|_, turns| Arc::strong_count(turns) > 1);
            let turns = || Arc::new(Semaphore::new(OF_ADDRESS_MAX));
            of_addresses.entry(address).or_insert_with(turns).clone()
        };
        // An error means that the semaphore is closed, which never happens.
        Turn {
            _of_address: of_address.acquire_owned().await.ok(),
            _of_all: self.all.clone().acquire_owned().await.ok(),
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
        let turns = HandshakeTurns::new();
        let done = Mutex::new(Vec::new());
        let one = |address| {
            let (turns, done) = (&turns, &done);
            Box::pin(turns.take(address, async move { done.lock().expect("one thread").push(address) }))
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
    fn one_address_has_half_of_the_turns_and_others_do_not_wait_for_it() {
        let mut waiting = vec![A; 3 * HANDSHAKES_MAX];
        waiting.extend([B, C]);
        let rounds = rounds(&waiting);
        assert_eq!(rounds[0], [A, A, A, A, B, C], "a flood of A came first");
        assert_eq!(rounds.iter().flatten().count(), waiting.len(), "every handshake has its turn");
    }

    #[test]
    fn few_handshakes_are_done_between_two_turns_of_other_tasks() {
        let waiting: Vec<IpAddr> = (0..100).map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))).collect();
        for round in rounds(&waiting) {
            assert!(round.len() <= HANDSHAKES_MAX, "{round:?}");
        }
    }
}
