//! Terms of leadership, in memory (design 13): the document says who leads, this says until when.
//!
//! After a start the holder renews at once, an application that nobody leads is granted at once, and a grant that
//! somebody else holds passes on only after one full term without a renewal, counted from the start at the earliest.
//!
//! Whoever decides holds the lock of all terms until its transaction is answered. Otherwise:
//! 1. B finds A's term over and begins to take over; 2. A renews, reads itself as holder, and is told "granted";
//! 3. B's transaction commits, and both lead.

use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// One term (design 13).
pub const TERM_MS: u64 = 60_000;

pub struct Leases {
    started_ms: u64,
    /// By application: when the last claim arrived that was granted.
    renewed: BTreeMap<Uuid, u64>,
}

impl Leases {
    pub fn new(started_ms: u64) -> Leases {
        Leases { started_ms, renewed: BTreeMap::new() }
    }

    /// The grant of `application` may pass to somebody else now.
    pub fn has_expired(&self, application: Uuid, now_ms: u64) -> bool {
        let timer_started_ms = self.renewed.get(&application).copied().unwrap_or(self.started_ms);
        now_ms.saturating_sub(timer_started_ms) >= TERM_MS
    }

    /// A claim that arrived at `at_ms` was granted. The holder counts its term from when it sent it, which was
    /// before: its term is over first.
    pub fn renew(&mut self, application: Uuid, at_ms: u64) {
        self.renewed.insert(application, at_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: Uuid = Uuid(1);

    #[test]
    fn a_grant_found_at_the_start_passes_on_after_one_full_term() {
        let leases = Leases::new(5_000);
        assert!(!leases.has_expired(WEB, 64_999));
        assert!(leases.has_expired(WEB, 65_000));
    }

    #[test]
    fn a_renewal_begins_a_new_term() {
        let mut leases = Leases::new(0);
        leases.renew(WEB, 50_000);
        assert!(!leases.has_expired(WEB, 109_999));
        assert!(leases.has_expired(WEB, 110_000));
    }
}
