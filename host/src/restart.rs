//! Computes how long a supervisor waits before it restarts a process that has ended.
//!
//! A process that fails by itself is restarted with a back-off, because its next attempt most likely fails, too. A
//! process that was ended from outside (an operator's `kill`) is started again at once. The kernel also kills
//! processes when memory is short, so the number of these restarts is bounded.
//!
//! The type starts no process. Used by the supervisor of `cli` for the controller and the machine agents, and by the
//! machine agent for the unit agents.

use crate::backoff::Backoff;

/// A process that ran longer than this has recovered: its delays start again.
pub const RECOVERED_AFTER_MS: u64 = 60_000;
/// Restarts without a delay in a row. With a back-off from 100 ms to 30 s, a process that is killed at each start is
/// started 10 times at once, 9 times in the next minute, and then twice a minute.
pub const IMMEDIATE_RESTARTS_MAX: u32 = 10;
/// A process that ran this long may be restarted at once one more time: 10 in 60 s. An operator who kills an agent
/// every 6 s never waits for it.
const IMMEDIATE_RESTART_EARNED_AFTER_MS: u64 = RECOVERED_AFTER_MS / IMMEDIATE_RESTARTS_MAX as u64;

/// SIGKILL and SIGTERM, with which a process is ended from outside. Any other signal is an error of the process.
const EXTERNAL_SIGNALS: [i32; 2] = [9, 15];

/// The exit code of a program that cannot serve until a person acts: starting it again changes nothing.
pub const EXIT_REFUSED: u8 = 3;

/// What ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The process itself: it exited or crashed.
    Itself,
    /// Another process, or the kernel: SIGKILL or SIGTERM.
    Signal,
}

impl EndedBy {
    /// What ended a process that was terminated by this signal. `None` means that it exited.
    pub fn of_signal(signal: Option<i32>) -> EndedBy {
        match signal.is_some_and(|signal| EXTERNAL_SIGNALS.contains(&signal)) {
            true => EndedBy::Signal,
            false => EndedBy::Itself,
        }
    }
}

/// The restarts of one supervised process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarts {
    backoff: Backoff,
    immediate_left: u32,
}

impl Restarts {
    /// A process that has not ended yet. Its back-off starts with `first_ms` and grows up to `max_ms`.
    pub const fn new(first_ms: u64, max_ms: u64) -> Restarts {
        Restarts { backoff: Backoff::new(first_ms, max_ms), immediate_left: IMMEDIATE_RESTARTS_MAX }
    }

    /// Returns the time in milliseconds from the end of the process to its next start. The delay of the back-off counts
    /// from its last start: `ran_ms` is the time between that start and its end.
    pub fn delay_ms(&mut self, ran_ms: u64, ended: EndedBy) -> u64 {
        if ran_ms > RECOVERED_AFTER_MS {
            self.backoff.reset();
        }
        let earned = u32::try_from(ran_ms / IMMEDIATE_RESTART_EARNED_AFTER_MS).unwrap_or(u32::MAX);
        self.immediate_left = self.immediate_left.saturating_add(earned).min(IMMEDIATE_RESTARTS_MAX);
        if ended == EndedBy::Signal && self.immediate_left > 0 {
            self.immediate_left -= 1;
            return 0;
        }
        let delay_ms = self.backoff.delay_ms();
        self.backoff.increase();
        delay_ms.saturating_sub(ran_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Restarts = Restarts::new(200, 30_000);

    #[test]
    fn a_process_that_fails_is_restarted_with_a_growing_delay_until_it_has_recovered() {
        let mut restarts = NEW;
        let delays: Vec<u64> = (0..10).map(|_| restarts.delay_ms(0, EndedBy::Itself)).collect();
        assert_eq!(delays, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(restarts.delay_ms(RECOVERED_AFTER_MS, EndedBy::Itself), 0, "its delay has passed already");
        assert_eq!(restarts.delay_ms(20_000, EndedBy::Itself), 10_000, "it has not recovered");
        assert_eq!(restarts.delay_ms(RECOVERED_AFTER_MS + 1, EndedBy::Itself), 0);
        assert_eq!(restarts.delay_ms(100, EndedBy::Itself), 300, "the second delay of a new back-off");
    }

    #[test]
    fn a_process_that_is_killed_nine_times_is_restarted_at_once_nine_times() {
        let mut restarts = NEW;
        assert_eq!([0; 9].map(|ran_ms| restarts.delay_ms(ran_ms, EndedBy::Signal)), [0; 9]);
        assert_eq!(restarts.delay_ms(0, EndedBy::Itself), 200, "its back-off has not grown meanwhile");
    }

    #[test]
    fn immediate_restarts_are_bounded_and_are_earned_again() {
        let mut restarts = NEW;
        let mut delays = [0; 13].map(|ran_ms| restarts.delay_ms(ran_ms, EndedBy::Signal)).to_vec();
        assert_eq!(delays.split_off(10), [200, 400, 800]);
        assert_eq!(delays, [0; 10]);
        assert_eq!(restarts.delay_ms(5_999, EndedBy::Signal), 0, "the delay of 1.6 s passed while it ran");
        assert_eq!(restarts.delay_ms(1_000, EndedBy::Signal), 2_200);
        let every_six_seconds = [6_000; 40].map(|ran_ms| restarts.delay_ms(ran_ms, EndedBy::Signal));
        assert_eq!(every_six_seconds, [0; 40]);
    }

    #[test]
    fn only_sigkill_and_sigterm_are_external() {
        assert_eq!([Some(9), Some(15)].map(EndedBy::of_signal), [EndedBy::Signal; 2]);
        assert_eq!([None, Some(6), Some(11)].map(EndedBy::of_signal), [EndedBy::Itself; 3]);
    }
}
