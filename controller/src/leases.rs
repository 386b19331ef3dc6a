//! Leadership leases of the embedded engine, in memory only (design 13). The leader document names the holder; this module
//! keeps the time of the last renewal. With etcd the leases are there, and of this module only the locks are used
//! (`store::leader_leases`).
//!
//! The holder can always renew, and an application without a leader can be claimed at once. The lease of another unit
//! expires [`LEASE_MS`] after its last renewal; a start of the controller counts as a renewal.
//!
//! A claim holds the lock of the lease of its application until its transaction is committed. Otherwise two units could
//! lead:
//!
//! 1. B finds the lease of A expired and starts to take over.
//! 2. A renews, reads itself as the holder, and its claim is granted.
//! 3. The transaction of B commits.
//!
//! The transaction itself owns the lock ([`ClaimLock`]): a request whose connection ends is dropped, and its
//! transaction may still be committed. Claims of different applications do not wait for each other, so that their
//! transactions share a sync.

use state::lifecycle::leadership::LEASE_MS;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// The lock of the lease of an application. At most one of its claims is decided at a time; the lock ends with the last
/// clone.
pub type ClaimLock = Arc<OwnedMutexGuard<()>>;

/// The renewal times of all leases.
pub struct Leases {
    started_ms: u64,
    renewed: Mutex<Renewals>,
    /// By application: the locks that are held or waited for.
    locks: Mutex<BTreeMap<Uuid, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Renewals {
    /// By application: the arrival time of the last claim that was granted.
    arrived_ms: BTreeMap<Uuid, u64>,
    /// When expired leases were deleted the last time.
    pruned_ms: u64,
}

impl Leases {
    /// `started_ms` is the start of the controller, on the monotonic clock.
    pub fn new(started_ms: u64) -> Leases {
        Leases { started_ms, renewed: Mutex::default(), locks: Mutex::default() }
    }

    /// Waits until no other claim of this application is being decided.
    pub async fn lock(&self, application: Uuid) -> ClaimLock {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(application).or_default().clone()
        };
        Arc::new(lock.lock_owned().await)
    }

    /// Whether another unit may take over the leadership of `application` now.
    pub fn has_expired(&self, application: Uuid, now_ms: u64) -> bool {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed_ms = renewed.arrived_ms.get(&application).copied().unwrap_or(self.started_ms);
        now_ms.saturating_sub(renewed_ms) >= LEASE_MS
    }

    /// Records that a claim that arrived at `at_ms` was granted. The holder counts its lease from the time at which it
    /// sent the claim, which is earlier, so the holder's own lease always ends first.
    pub fn renew(&self, application: Uuid, at_ms: u64) {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        // An expired lease counts from the start of the controller, and has expired then, too. Once in the length of a
        // lease, so that a renewal does not cost a pass over all of them.
        if at_ms.saturating_sub(renewed.pruned_ms) >= LEASE_MS {
            renewed.arrived_ms.retain(|_, renewed_ms| at_ms.saturating_sub(*renewed_ms) < LEASE_MS);
            renewed.pruned_ms = at_ms;
        }
        renewed.arrived_ms.insert(application, at_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const WEB: Uuid = Uuid(1);
    const DB: Uuid = Uuid(2);

    #[test]
    fn a_claim_waits_for_those_of_its_application_alone() {
        let leases = Leases::new(0);
        let lock = |application| {
            let mut waiting = pin!(leases.lock(application));
            match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(lock) => Some(lock),
                Poll::Pending => None,
            }
        };
        let first = lock(WEB);
        assert!(first.is_some() && lock(WEB).is_none());
        assert!(lock(DB).is_some(), "another application");
        let of_transaction = first.clone();
        drop(first);
        assert!(lock(WEB).is_none(), "its transaction may still be committed");
        drop(of_transaction);
        assert!(lock(WEB).is_some());
        assert!(leases.locks.lock().expect("one thread").len() <= 2, "locks that no one holds are not kept");
    }

    #[test]
    fn a_lease_from_before_the_start_expires_after_its_full_length() {
        let leases = Leases::new(5_000);
        assert!(!leases.has_expired(WEB, 64_999));
        assert!(leases.has_expired(WEB, 65_000));
    }

    /// A model can be created and destroyed any number of times while one controller runs.
    #[test]
    fn leases_that_have_expired_are_not_kept() {
        let leases = Leases::new(0);
        for application in 0..100 {
            leases.renew(Uuid(application), application as u64 * LEASE_MS / 10);
        }
        assert!(leases.renewed.lock().expect("one thread").arrived_ms.len() <= 20);
        assert!(leases.has_expired(Uuid(1), 99 * LEASE_MS / 10));
        assert!(!leases.has_expired(Uuid(99), 99 * LEASE_MS / 10));
    }

    #[test]
    fn a_renewal_starts_a_new_term() {
        let leases = Leases::new(0);
        leases.renew(WEB, 50_000);
        assert!(!leases.has_expired(WEB, 109_999));
        assert!(leases.has_expired(WEB, 110_000));
    }
}
