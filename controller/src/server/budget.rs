//! Budgets that callers share: slots of transfers, and bytes in memory.
//!
//! Of each budget one token holder has at most a part, so that the requests of one do not block those of others. No
//! request waits for a budget without a bound. Used by `server` for uploads, for bodies of requests, for files that are
//! sent, and for large responses.

use api::error::{ApiError, ErrorCode};
use state::documents::prelude::TokenHolder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The time for which a request waits for a budget. A request may wait twice, for its body and for its response: 10 of
/// the 15 s for which an agent waits for a response.
pub const WAIT_MAX: Duration = Duration::from_secs(5);

/// The parts of a budget.
pub struct Shares {
    /// The most that one agent has.
    pub agent: u32,
    /// The most that one user has.
    pub user: u32,
    /// What all have together.
    pub all: u32,
}

/// An amount of something that is used by several callers at the same time.
pub struct Budget {
    all: Arc<Semaphore>,
    shares: Shares,
    of_holders: Mutex<BTreeMap<TokenHolder, Arc<Semaphore>>>,
}

/// A part of a budget, until it is dropped.
pub struct Permit {
    _of_holder: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// Returns a budget with these shares, all of it unused.
    pub fn new(shares: Shares) -> Budget {
        Budget { all: Arc::new(Semaphore::new(shares.all as usize)), shares, of_holders: Mutex::default() }
    }

    /// The most that this holder may have.
    fn share(&self, holder: &TokenHolder) -> u32 {
        let share = match holder {
            TokenHolder::User { .. } => self.shares.user,
            TokenHolder::Unit { .. }
            | TokenHolder::Machine { .. }
            | TokenHolder::RemovedMachine { .. }
            | TokenHolder::EnrollingMachine { .. } => self.shares.agent,
        };
        share.min(self.shares.all)
    }

    fn of_holder(&self, holder: &TokenHolder) -> Arc<Semaphore> {
        let mut of_holders = self.of_holders.lock().expect("no holder panics");
        of_holders.retain(|_, used| Arc::strong_count(used) > 1);
        let of_holder = || Arc::new(Semaphore::new(self.share(holder) as usize));
        of_holders.entry(holder.clone()).or_insert_with(of_holder).clone()
    }

    /// What is taken for `amount`: all that the holder may have if it is more than that.
    fn taken(&self, holder: &TokenHolder, amount: usize) -> u32 {
        u32::try_from(amount).unwrap_or(u32::MAX).min(self.share(holder))
    }

    /// Waits for a part of what this holder may have, then for the same part of the total. Without a bound, so it is
    /// private: a request waits with [`Budget::acquire_in_time`].
    async fn acquire(&self, holder: &TokenHolder, amount: usize) -> Permit {
        let (of_holder, taken) = (self.of_holder(holder), self.taken(holder, amount));
        // An error means that the semaphore is closed, which never happens.
        Permit {
            _of_holder: of_holder.acquire_many_owned(taken).await.ok(),
            _of_all: self.all.clone().acquire_many_owned(taken).await.ok(),
        }
    }

    /// Waits at most [`WAIT_MAX`] for a part.
    ///
    /// # Errors
    /// Unavailable with this text, if the part was not free in time.
    pub async fn acquire_in_time(
        &self,
        holder: &TokenHolder,
        amount: usize,
        refusal: &str,
    ) -> Result<Permit, ApiError> {
        let permit = timeout(WAIT_MAX, self.acquire(holder, amount)).await;
        permit.map_err(|_| ApiError::new(ErrorCode::Unavailable, refusal).hint("try again later"))
    }

    /// Returns the part if it is free now.
    pub fn try_acquire(&self, holder: &TokenHolder, amount: usize) -> Option<Permit> {
        let (of_holder, taken) = (self.of_holder(holder), self.taken(holder, amount));
        let of_holder = of_holder.try_acquire_many_owned(taken).ok()?;
        let of_all = self.all.clone().try_acquire_many_owned(taken).ok()?;
        Some(Permit { _of_holder: Some(of_holder), _of_all: Some(of_all) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::documents::prelude::{GLOBAL, UserRole};
    use state::terms::names::Uuid;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn user(name: &str) -> TokenHolder {
        TokenHolder::User { name: name.to_owned(), role: UserRole::Write }
    }

    #[test]
    fn what_one_holder_waits_for_others_have() {
        let budget = Budget::new(Shares { agent: 1, user: 2, all: 16 });
        let acquire = |holder: &TokenHolder| {
            let mut waiting = pin!(budget.acquire(holder, 1));
            match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => None,
            }
        };
        let unit = TokenHolder::Unit { model: GLOBAL, unit: Uuid(1) };
        let of_unit = acquire(&unit);
        assert!(of_unit.is_some() && acquire(&unit).is_none(), "an agent has another share");
        let (ann, ben) = (user("ann"), user("ben"));
        let permits: Vec<Permit> = (0..2).filter_map(|_| acquire(&ann)).collect();
        assert_eq!(permits.len(), 2);
        assert!(acquire(&ann).is_none());
        assert!(acquire(&ben).is_some());
        drop(permits);
        assert!(acquire(&ann).is_some());
    }

    #[test]
    fn bytes_are_bounded_for_one_holder_and_in_total_and_a_large_part_fits_alone() {
        let budget = Budget::new(Shares { agent: 10, user: 10, all: 15 });
        let (ann, ben) = (user("ann"), user("ben"));
        let six = budget.try_acquire(&ann, 6);
        assert!(six.is_some() && budget.try_acquire(&ann, 5).is_none());
        let nine = budget.try_acquire(&ben, 9);
        assert!(nine.is_some() && budget.try_acquire(&user("cid"), 1).is_none(), "15 are used");
        drop((six, nine));
        let all = budget.try_acquire(&ann, 1_000);
        assert!(all.is_some() && budget.try_acquire(&ann, 1).is_none());
    }
}
