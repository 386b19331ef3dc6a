//! Budgets that callers share: slots of transfers, and bytes in memory.
//!
//! Of each budget one token holder has at most a part, so that the requests of one do not block those of others. Used by
//! `server` for uploads, for files that are sent, and for large responses.

use state::documents::prelude::TokenHolder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An amount of something that is used by several callers at the same time.
pub struct Budget {
    all: Arc<Semaphore>,
    of_holder_max: u32,
    of_holders: Mutex<BTreeMap<TokenHolder, Arc<Semaphore>>>,
}

/// A part of a budget, until it is dropped.
pub struct Permit {
    _of_holder: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// Returns a budget of `max`, of which one holder has at most `of_holder_max`.
    pub fn new(of_holder_max: u32, max: u32) -> Budget {
        let all = Arc::new(Semaphore::new(max as usize));
        Budget { all, of_holder_max: of_holder_max.min(max), of_holders: Mutex::default() }
    }

    fn of_holder(&self, holder: &TokenHolder) -> Arc<Semaphore> {
        let mut of_holders = self.of_holders.lock().expect("no holder panics");
        of_holders.retain(|_, used| Arc::strong_count(used) > 1);
        let of_holder = || Arc::new(Semaphore::new(self.of_holder_max as usize));
        of_holders.entry(holder.clone()).or_insert_with(of_holder).clone()
    }

    /// What is taken for `amount`: all that one holder may have if it is more than that.
    fn taken(&self, amount: usize) -> u32 {
        u32::try_from(amount).unwrap_or(u32::MAX).min(self.of_holder_max)
    }

    /// Waits for a part of what this holder may have, then for the same part of the total.
    pub async fn acquire(&self, holder: &TokenHolder, amount: usize) -> Permit {
        let (of_holder, taken) = (self.of_holder(holder), self.taken(amount));
        // An error means that the semaphore is closed, which never happens.
        Permit {
            _of_holder: of_holder.acquire_many_owned(taken).await.ok(),
            _of_all: self.all.clone().acquire_many_owned(taken).await.ok(),
        }
    }

    /// Returns the part if it is free now.
    pub fn try_acquire(&self, holder: &TokenHolder, amount: usize) -> Option<Permit> {
        let (of_holder, taken) = (self.of_holder(holder), self.taken(amount));
        let of_holder = of_holder.try_acquire_many_owned(taken).ok()?;
        let of_all = self.all.clone().try_acquire_many_owned(taken).ok()?;
        Some(Permit { _of_holder: Some(of_holder), _of_all: Some(of_all) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::documents::prelude::UserRole;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn user(name: &str) -> TokenHolder {
        TokenHolder::User { name: name.to_owned(), role: UserRole::Write }
    }

    #[test]
    fn what_one_holder_waits_for_others_have() {
        let budget = Budget::new(2, 16);
        let acquire = |holder: &TokenHolder| {
            let mut waiting = pin!(budget.acquire(holder, 1));
            match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => None,
            }
        };
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
        let budget = Budget::new(10, 15);
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
