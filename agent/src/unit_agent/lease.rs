//! Leadership as one process of the agent holds it, on two clocks (design 13). Pure.

/// `is-leader` promises this much.
const PROMISE_MS: u64 = 30_000;
/// Wall and boot clock may part this far: a leap second, and what a clock daemon slews in a term (500 ppm of 60 s is
/// 30 ms). Further, and one of them stood still or was set: a machine that was paused may have lost the term with
/// nothing to show for it but the wall clock that was corrected.
const PARTED_MS: u64 = 2_000;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub since_boot_ms: u64,
    pub wall_ms: i64,
}

/// Held leadership, counted from when its claim was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub generation: u64,
    pub sent: ClockReading,
    pub term_ms: u64,
}

impl Lease {
    /// It holds for as long as is promised, and its time is known.
    pub fn holds(&self, now: ClockReading) -> bool {
        let elapsed_ms = now.since_boot_ms.saturating_sub(self.sent.since_boot_ms);
        let by_wall_ms = i128::from(now.wall_ms) - i128::from(self.sent.wall_ms);
        let parted_ms = (by_wall_ms - i128::from(elapsed_ms)).unsigned_abs();
        elapsed_ms + PROMISE_MS <= self.term_ms && parted_ms <= u128::from(PARTED_MS)
    }
}

#[cfg(test)]
mod tests {
    use crate::unit_agent::lease::*;

    const LEASE: Lease = Lease {
        generation: 1,
        sent: ClockReading { since_boot_ms: 5_000, wall_ms: 1_000_000 },
        term_ms: 60_000,
    };

    /// So long after the claim was sent, by either clock.
    fn after(boot_ms: u64, wall_ms: i64) -> ClockReading {
        ClockReading {
            since_boot_ms: LEASE.sent.since_boot_ms + boot_ms,
            wall_ms: LEASE.sent.wall_ms.saturating_add(wall_ms),
        }
    }

    #[test]
    fn leadership_holds_while_thirty_seconds_of_its_term_are_left() {
        assert!(LEASE.holds(after(0, 0)));
        assert!(LEASE.holds(after(30_000, 30_000)));
        assert!(!LEASE.holds(after(30_001, 30_001)));
    }

    #[test]
    fn leadership_is_void_when_the_clocks_part() {
        assert!(LEASE.holds(after(10_000, 11_000)), "a leap second");
        assert!(LEASE.holds(after(10_000, 9_000)));
        assert!(!LEASE.holds(after(10_000, 600_000)), "the machine was paused, and its wall clock corrected");
        assert!(!LEASE.holds(after(10_000, -600_000)), "set back: nobody knows which one is right");
        assert!(!LEASE.holds(after(10_000, i64::MAX)) && !LEASE.holds(after(10_000, i64::MIN)));
    }
}
