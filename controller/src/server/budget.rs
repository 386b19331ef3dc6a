//! Budgets that callers share: slots of transfers, and bytes in memory.
//!
//! Each class of callers has a budget of its own: users, machine agents and unit agents. A person who controls all units of
//! an application can use up what unit agents have, and delays neither an operator nor the agents of machines. Within a
//! class, one token holder has at most a part, so that the requests of one do not block those of others. No request
//! waits for a budget without a bound. Used by `server` for uploads, for bodies of requests, for files that are
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

/// The share of a class of callers.
#[derive(Clone, Copy)]
pub struct Share {
    /// The most that one caller of the class has.
    pub each: u32,
    /// What the callers of the class have together.
    pub all: u32,
}

/// The shares of all classes.
pub struct Shares {
    /// The share of users.
    pub users: Share,
    /// The share of machine agents.
    pub machines: Share,
    /// The share of unit agents.
    pub units: Share,
}

/// What the callers of one class use.
struct Class {
    share: Share,
    all: Arc<Semaphore>,
    of_holders: Mutex<BTreeMap<TokenHolder, Arc<Semaphore>>>,
}

/// A bounded amount (slots or bytes) that callers use at the same time.
pub struct Budget {
    users: Class,
    machines: Class,
    units: Class,
}

/// A part of a budget, until it is dropped.
pub struct Permit {
    _of_holder: Option<OwnedSemaphorePermit>,
    _of_class: Option<OwnedSemaphorePermit>,
}

impl Class {
    fn new(share: Share) -> Class {
        Class { share, all: Arc::new(Semaphore::new(share.all as usize)), of_holders: Mutex::default() }
    }

    fn of_holder(&self, holder: &TokenHolder) -> Arc<Semaphore> {
        let mut of_holders = self.of_holders.lock().expect("no holder panics");
        of_holders.retain(|_, used| Arc::strong_count(used) > 1);
        let of_holder = || Arc::new(Semaphore::new(self.share.each as usize));
        of_holders.entry(holder.clone()).or_insert_with(of_holder).clone()
    }

    /// The number of permits for `amount`, at most the share of one holder.
    fn taken(&self, amount: usize) -> u32 {
        u32::try_from(amount).unwrap_or(u32::MAX).min(self.share.each).min(self.share.all)
    }
}

impl Budget {
    /// Returns a budget with these shares, all of it unused.
    pub fn new(Shares { users, machines, units }: Shares) -> Budget {
        let (users, machines, units) = (Class::new(users), Class::new(machines), Class::new(units));
        Budget { users, machines, units }
    }

    fn class(&self, holder: &TokenHolder) -> &Class {
        match holder {
            TokenHolder::User { .. } => &self.users,
            TokenHolder::Unit { .. } => &self.units,
            TokenHolder::Machine { .. }
            | TokenHolder::RemovedMachine { .. }
            | TokenHolder::EnrollingMachine { .. } => &self.machines,
        }
    }

    /// Waits for a part of what this holder may have, then for the same part of what its class has. Without a bound, so it is
    /// private: a request waits with [`Budget::acquire_in_time`].
    async fn acquire(&self, holder: &TokenHolder, amount: usize) -> Permit {
        let class = self.class(holder);
        let (of_holder, taken) = (class.of_holder(holder), class.taken(amount));
        // An error means that the semaphore is closed, which never happens.
        Permit {
            _of_holder: of_holder.acquire_many_owned(taken).await.ok(),
            _of_class: class.all.clone().acquire_many_owned(taken).await.ok(),
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
        let class = self.class(holder);
        let (of_holder, taken) = (class.of_holder(holder), class.taken(amount));
        let of_holder = of_holder.try_acquire_many_owned(taken).ok()?;
        let of_class = class.all.clone().try_acquire_many_owned(taken).ok()?;
        Some(Permit { _of_holder: Some(of_holder), _of_class: Some(of_class) })
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

    fn unit(n: u128) -> TokenHolder {
        TokenHolder::Unit { model: GLOBAL, unit: Uuid(n) }
    }

    fn budget(users: Share, agents: Share) -> Budget {
        Budget::new(Shares { users, machines: agents, units: agents })
    }

    /// A person who controls the units of an application has the tokens of all of them.
    #[test]
    fn all_units_together_delay_neither_users_nor_machines() {
        let share = Share { each: 4, all: 16 };
        let budget = budget(share, share);
        let of_units: Vec<_> = (0..10).filter_map(|n| budget.try_acquire(&unit(n), 4)).collect();
        assert_eq!(of_units.len(), 4);
        assert!(budget.try_acquire(&unit(10), 1).is_none(), "units have no more");
        assert!(budget.try_acquire(&user("ann"), 4).is_some());
        assert!(budget.try_acquire(&TokenHolder::Machine { model: GLOBAL, machine: Uuid(1) }, 4).is_some());
    }

    #[test]
    fn what_one_holder_waits_for_others_have() {
        let budget = budget(Share { each: 2, all: 16 }, Share { each: 1, all: 16 });
        let acquire = |holder: &TokenHolder| {
            let mut waiting = pin!(budget.acquire(holder, 1));
            match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => None,
            }
        };
        let unit = unit(1);
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
        let share = Share { each: 10, all: 15 };
        let budget = budget(share, share);
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
