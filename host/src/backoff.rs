//! The delay between two attempts: it doubles up to a maximum while attempts fail, and is reset by a success.
//!
//! The type only computes delays. The caller waits on its own clock, because the agents' loops also run on the
//! simulated clock. Retries of hooks do not use it: see `state::unit::retry`.

/// The state of one series of attempts. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first_ms: u64,
    max_ms: u64,
    delay_ms: u64,
}

impl Backoff {
    /// A delay of `first_ms` that grows up to `max_ms`.
    pub const fn new(first_ms: u64, max_ms: u64) -> Backoff {
        Backoff { first_ms, max_ms, delay_ms: first_ms }
    }

    /// How long to wait before the next attempt.
    pub const fn delay_ms(&self) -> u64 {
        self.delay_ms
    }

    /// Doubles the delay, up to the maximum.
    pub fn increase(&mut self) {
        self.delay_ms = self.delay_ms.saturating_mul(2).min(self.max_ms);
    }

    /// An attempt succeeded: the next delay is the first one again.
    pub fn reset(&mut self) {
        self.delay_ms = self.first_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_maximum_and_starts_over() {
        let mut backoff = Backoff::new(100, 700);
        let mut delays = Vec::new();
        for _ in 0..5 {
            delays.push(backoff.delay_ms());
            backoff.increase();
        }
        assert_eq!(delays, [100, 200, 400, 700, 700]);
        backoff.reset();
        assert_eq!(backoff.delay_ms(), 100);
    }
}
