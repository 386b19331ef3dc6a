//! The leadership lease of one agent process, measured on two clocks (design 13).
//!
//! A lease is valid only while it is guaranteed for 30 s more and both clocks agree. Called by the unit agent, whose claim
//! loop renews the lease.

use crate::lifecycle::leadership::GrantedLease;
use crate::unit::snapshot::Snapshot;

/// `is-leader` guarantees leadership for this long.
const REMAINING_MIN_MS: u64 = 30_000;
/// The wall clock and the boot clock may differ by this much since the claim: a leap second, and the adjustment
/// of a clock daemon within a lease (500 ppm of 60 s is 30 ms). If they differ by more, one of them stood still
/// or was set: a machine that was paused may have lost the lease, and only its corrected wall clock shows it.
const CLOCK_DIVERGENCE_MAX_MS: u64 = 2_000;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// Milliseconds since boot.
    pub since_boot_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

/// A granted lease, measured from when its claim was sent.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// What the controller has granted.
    pub granted: GrantedLease,
    /// When the claim was sent.
    pub sent: ClockReading,
}

impl Lease {
    /// Whether leadership is guaranteed for 30 s from `now`, and the clocks agree.
    pub fn is_valid(&self, now: ClockReading) -> bool {
        let elapsed_ms = now.since_boot_ms.saturating_sub(self.sent.since_boot_ms);
        let elapsed_by_wall_ms = i128::from(now.wall_ms) - i128::from(self.sent.wall_ms);
        let divergence_ms = (elapsed_by_wall_ms - i128::from(elapsed_ms)).unsigned_abs();
        elapsed_ms + REMAINING_MIN_MS <= self.granted.lease_ms
            && divergence_ms <= u128::from(CLOCK_DIVERGENCE_MAX_MS)
    }

    /// Whether a view shows a later grant than that of this lease.
    pub fn is_superseded(&self, view: &Snapshot) -> bool {
        view.leader.as_ref().is_some_and(|grant| grant.generation > self.granted.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease {
        granted: GrantedLease { generation: 1, lease_ms: 60_000 },
        sent: ClockReading { since_boot_ms: 5_000, wall_ms: 1_000_000 },
    };

    /// The reading this long after the claim was sent, by each clock.
    fn after(boot_ms: u64, wall_ms: i64) -> ClockReading {
        ClockReading {
            since_boot_ms: LEASE.sent.since_boot_ms + boot_ms,
            wall_ms: LEASE.sent.wall_ms.saturating_add(wall_ms),
        }
    }

    #[test]
    fn leadership_holds_while_thirty_seconds_of_its_term_are_left() {
        assert!(LEASE.is_valid(after(0, 0)));
        assert!(LEASE.is_valid(after(30_000, 30_000)));
        assert!(!LEASE.is_valid(after(30_001, 30_001)));
    }

    #[test]
    fn leadership_is_void_when_the_clocks_diverge() {
        assert!(LEASE.is_valid(after(10_000, 11_000)), "a leap second");
        assert!(LEASE.is_valid(after(10_000, 9_000)));
        assert!(
            !LEASE.is_valid(after(10_000, 600_000)),
            "the machine was paused, and its wall clock corrected"
        );
        assert!(
            !LEASE.is_valid(after(10_000, -600_000)),
            "the wall clock was set back: either clock may be wrong"
        );
        assert!(!LEASE.is_valid(after(10_000, i64::MAX)) && !LEASE.is_valid(after(10_000, i64::MIN)));
    }
}
